/*
 * What unwinding costs: takes samples of real programs, keeps them, and replays them through the
 * rules and through libunwind, in this one thread.
 *
 *     unwind [MODE...]        (python, sqlite, cc1plus, node; all of them where none is named)
 *
 * For each program and for all together it prints `key value` lines:
 *     ns_per_frame_rules       all rules are in the cache
 *     ns_per_frame_rules_cold  the cache of rules is emptied before every replay of all samples
 *     ns_per_frame_libunwind   its cache is warm, too
 *     stacks_per_second        as if each had 20 frames; records decoded, frames looked up, counted
 *     frames_per_stack, handed_over_percent, guessed_percent, whole_percent
 *
 * Samples are replayed in batches, as drains take them: so their stacks are in the processor's
 * caches as those that the kernel has just written are, and code that may change is read anew for
 * each batch.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "event.h"
#include "proc_maps.h"
#include "record.h"
#include "ring.h"
#include "stack_frames.h"

#define SAMPLES_MAX   1024u
#define BATCH         32u
#define ROUNDS        40u
#define PERIOD_NS     500000u
#define STACK_BYTES   32768u
#define RING_BYTES    (4u << 20)
#define TAKE_MS_MAX   8000u
#define START_MS      400u
#define FRAMES_WANTED 20u

struct mode {
    const char *name;
    const char *const *argv;
};

struct samples {
    uint32_t count;
    size_t bytes[SAMPLES_MAX];
    void *data[SAMPLES_MAX];
};

/* What was measured, in ns and numbers. */
struct sums {
    double rules_ns, cold_ns, library_ns, counted_ns;
    double rules_frames, cold_frames, library_frames, counted_frames, counted_stacks;
    double stacks, handed_over, guesses, whole;
};

static const char *const python[] = {
    "/usr/bin/python3", "-c",
    "import json, re\n"
    "def deep(n, f): return f() if n == 0 else deep(n - 1, f)\n"
    "def work():\n"
    "    for i in range(20): re.sub('a(b+)c', lambda m: m.group(1), 'abbbc' * 200)\n"
    "    return sorted(json.loads(json.dumps(list(range(3000)))), key=lambda x: -x)\n"
    "while True: deep(5, work)\n",
    NULL};
static const char *const sqlite[] = {
    "sqlite3", ":memory:",
    "create table t(a, b); with recursive n(x) as (select 1 union all select x + 1 from n limit "
    "300000) insert into t select x, hex(x * 7919) from n; with recursive r(x) as (select 1 union "
    "all select x + 1 from r limit 100000) select sum(length(t.b)) from r, t where t.a > r.x and "
    "t.b like '%3%' and t.a < r.x + 50000;",
    NULL};
static const char *const cc1plus[] = {
    "sh", "-c",
    "d=$(mktemp -d); trap 'rm -r $d' EXIT; for h in regex iostream map functional thread; do echo "
    "\"#include <$h>\"; done >$d/x.cc; echo 'bool f(const char *s) { return std::regex_match(s, "
    "std::regex(\"a(b|c)*d\")); }' >>$d/x.cc; exec $(g++ -print-prog-name=cc1plus) -quiet -O2 -o "
    "/dev/null -imultiarch x86_64-linux-gnu -D_GNU_SOURCE $d/x.cc",
    NULL};
static const char *const node[] = {
    "node", "-e",
    "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }\n"
    "for (;;) { fib(20); JSON.parse(JSON.stringify(Array.from({length: 2000}, (_, i) => ({i})))) }",
    NULL};
static const struct mode modes[] = {
    {"python", python}, {"sqlite", sqlite}, {"cc1plus", cc1plus}, {"node", node}};

static struct arena arena;
static struct app_memory memory;
static struct modules modules;
static struct unwinder unwinder;
static struct profile profile;
static struct stack_builder builder;
static struct event_traits traits;
static struct unwind_library library;
static struct samples samples;
static uint64_t ips[UNWIND_FRAMES_MAX];
static uint64_t batch_ns; /* when the samples that are replayed are said to have been taken */

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void batch_begin(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    batch_ns = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void sleep_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

static void library_load(void)
{
    void *handle = dlopen(unwind_library_file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return;
    for (unsigned i = 0; i < UNWIND_SYMBOLS; i++)
        library.symbols[i] = dlsym(handle, unwind_symbol_names[i]);
    unwind_library_prepare(&library);
}

static pid_t program_start(const struct mode *mode)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL)
        _exit(126);
    execvp(mode->argv[0], (char *const *)(uintptr_t)mode->argv);
    _exit(127);
}

static void samples_take(struct event *event)
{
    static uint64_t bounce[RECORD_BYTES_MAX / 8];
    struct ring ring = ring_over(event->mapping, event->mapping_bytes);
    struct record record;
    size_t bytes;
    samples.count = 0;
    for (unsigned ms = 0; ms < TAKE_MS_MAX && samples.count < SAMPLES_MAX; ms += 5, sleep_ms(5)) {
        for (const void *data; (data = ring_peek(&ring, &bytes, bounce)) != NULL;) {
            if (samples.count < SAMPLES_MAX &&
                record_decode(&record, data, bytes, traits.kernel_frames) == 0 &&
                record.kind == RECORD_SAMPLE && record.sample.registers != NULL) {
                samples.bytes[samples.count] = bytes;
                samples.data[samples.count] = malloc(bytes);
                memcpy(samples.data[samples.count++], data, bytes);
            }
            ring_advance(&ring, bytes);
        }
    }
}

static void map_entry(void *context, const struct proc_maps_entry *entry)
{
    (void)context;
    if (entry->executable && strcmp(entry->path, "[vsyscall]") != 0)
        modules_map(&modules, entry->start, entry->end - entry->start, entry->file_offset,
                    entry->inode, entry->path);
}

/* Everything as the helper has it, over the memory and the mappings of PID. */
static bool stages_prepare(pid_t pid)
{
    char maps[64];
    snprintf(maps, sizeof maps, "/proc/%d/maps", (int)pid);
    arena_destroy(&arena);
    app_memory_init(&memory, &arena);
    memory.pid = pid;
    modules_init(&modules, &arena, &memory, 0);
    unwinder_init(&unwinder, &library, &modules, &memory, &arena);
    unwinder.watching_tried = unwinder.watching_fails =
        true; /* those of now are no more the samples' own */
    profile_init(&profile, &arena);
    return stack_builder_init(&builder, &modules, &unwinder, &profile, CONFIG_THREADS_NAME,
                              &arena) == 0 &&
           proc_maps_read(maps, map_entry, NULL) == 0;
}

static struct unwind_sample sample_of(uint32_t index, struct record *record)
{
    record_decode(record, samples.data[index], samples.bytes[index], traits.kernel_frames);
    record->time_ns = batch_ns;
    return (struct unwind_sample){.registers = record->sample.registers,
                                  .stack = record->sample.stack,
                                  .stack_bytes = record->sample.stack_bytes,
                                  .time_ns = record->time_ns};
}

static size_t by_rules(uint32_t index)
{
    struct record record;
    enum unwind_end end;
    struct unwind_sample sample = sample_of(index, &record);
    return unwind_stack(&unwinder, &sample, ips, &end);
}

static size_t by_library(uint32_t index)
{
    struct record record;
    enum unwind_end end;
    unwinder.sample = sample_of(index, &record);
    unwinder.beyond_copy = false;
    unwinder.unknown_ip = 0;
    return unwind_by_libunwind(&unwinder, ips, &end);
}

static size_t by_all_stages(uint32_t index)
{
    static struct thread thread = {.name = "bench", .text = UINT32_MAX};
    struct record record;
    enum unwind_end end;
    sample_of(index, &record);
    size_t count = stack_frames(&builder, &thread, &record, &end);
    profile_add(&profile, builder.frames, count, PERIOD_NS, NULL);
    return count;
}

/* Replays all samples, each batch ROUNDS times, the first of them unmeasured. */
static void replay(size_t (*one)(uint32_t), double *ns, double *frames)
{
    for (uint32_t first = 0; first < samples.count; first += BATCH) {
        uint32_t last = first + BATCH < samples.count ? first + BATCH : samples.count;
        for (unsigned round = 0; round <= ROUNDS; round++) {
            double start = now_ns();
            size_t found = 0;
            batch_begin();
            for (uint32_t i = first; i < last; i++)
                found += one(i);
            *ns += round > 0 ? now_ns() - start : 0;
            *frames += round > 0 ? (double)found : 0;
        }
    }
}

static void replay_cold(double *ns, double *frames)
{
    for (unsigned round = 0; round < ROUNDS / 4; round++) {
        rule_cache_forget(&unwinder.rules, 0, UINT64_MAX / 4);
        double start = now_ns();
        for (uint32_t i = 0; i < samples.count; i++) {
            if (i % BATCH == 0)
                batch_begin();
            *frames += (double)by_rules(i);
        }
        *ns += now_ns() - start;
    }
}

static void look(struct sums *sums)
{
    struct record record;
    enum unwind_end end;
    uint64_t handed_over = unwinder.handed_over, guesses = unwinder.guesses;
    for (uint32_t i = 0; i < samples.count; i++) {
        struct unwind_sample sample = sample_of(i, &record);
        unwind_stack(&unwinder, &sample, ips, &end);
        sums->whole += end == UNWIND_ROOT;
    }
    sums->stacks += samples.count;
    sums->handed_over += (double)(unwinder.handed_over - handed_over);
    sums->guesses += (double)(unwinder.guesses - guesses);
}

static void sums_print(const char *name, const struct sums *sums)
{
    double per_stack = sums->rules_frames / (sums->stacks * ROUNDS);
    printf("%s: samples %.0f\n", name, sums->stacks);
    printf("ns_per_frame_rules %.1f\n", sums->rules_ns / sums->rules_frames);
    printf("ns_per_frame_rules_cold %.1f\n", sums->cold_ns / sums->cold_frames);
    if (sums->library_frames > 0)
        printf("ns_per_frame_libunwind %.1f\n", sums->library_ns / sums->library_frames);
    printf("stacks_per_second %.0f\n",
           1e9 / (sums->counted_ns / sums->counted_frames * FRAMES_WANTED));
    printf("frames_per_stack %.1f\n", per_stack);
    printf("handed_over_percent %.2f\n", 100 * sums->handed_over / sums->stacks);
    printf("guessed_percent %.2f\n", 100 * sums->guesses / (sums->stacks * per_stack));
    printf("whole_percent %.2f\n", 100 * sums->whole / sums->stacks);
}

static void measure(struct sums *sums)
{
    look(sums);
    replay(by_rules, &sums->rules_ns, &sums->rules_frames);
    replay_cold(&sums->cold_ns, &sums->cold_frames);
    if (library.address_space != NULL)
        replay(by_library, &sums->library_ns, &sums->library_frames);
    replay(by_all_stages, &sums->counted_ns, &sums->counted_frames);
}

static void sums_add(struct sums *all, const struct sums *one)
{
    const double *from = (const double *)one;
    for (size_t i = 0; i < sizeof *all / sizeof *from; i++)
        ((double *)all)[i] += from[i];
}

static void run(const struct mode *mode, struct sums *all)
{
    const struct event_shape shape = {
        .period_ns = PERIOD_NS, .stack_bytes = STACK_BYTES, .ring_bytes = RING_BYTES};
    struct event event;
    struct sums sums = {0};
    pid_t pid = program_start(mode);
    sleep_ms(START_MS);
    int error = event_open(&event, &traits, &shape, pid);
    if (error != 0) {
        fprintf(stderr, "unwind: %s: no event: %s\n", mode->name, strerror(-error));
    } else {
        samples_take(&event);
        kill(pid, SIGSTOP);
        event_close(&event);
        if (samples.count > 0 && stages_prepare(pid)) {
            measure(&sums);
            sums_print(mode->name, &sums);
            sums_add(all, &sums);
            modules_close(&modules);
        } else {
            fprintf(stderr, "unwind: %s: no samples; is it installed?\n", mode->name);
        }
        for (uint32_t i = 0; i < samples.count; i++)
            free(samples.data[i]);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    struct sums all = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    library_load();
    int error = event_probe(&traits, false);
    if (error != 0) {
        fprintf(stderr, "unwind: the kernel refuses perf events: %s\n", strerror(-error));
        return 77;
    }
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        bool wanted = argc < 2;
        for (int i = 1; i < argc; i++)
            wanted |= strcmp(argv[i], modes[m].name) == 0;
        if (wanted)
            run(&modes[m], &all);
    }
    if (all.stacks == 0)
        return 1;
    sums_print("all", &all);
    return 0;
}
