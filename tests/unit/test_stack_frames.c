/* stack_frames: what a sample of this very process becomes, frame by frame. */
#include "stack_frames.h"

#include <stdio.h>
#include <unistd.h>

#include "sample_fixture.h"

static struct arena arena;
static struct app_memory memory;
static struct modules modules;
static struct unwinder unwinder;
static struct profile profile;
static struct stack_builder builder;
static struct fixture_sample taken;

static const struct unwind_library no_library;

static uint64_t address_of(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

static void prepare(const struct unwind_library *library, enum config_threads threads,
                    uint64_t our_address)
{
    arena_destroy(&arena);
    app_memory_init(&memory, &arena);
    modules_init(&modules, &arena, &memory, our_address);
    REQUIRE(modules_scan(&modules) == 0);
    unwinder_init(&unwinder, library, &modules, &memory, &arena);
    profile_init(&profile, &arena);
    REQUIRE(stack_builder_init(&builder, &modules, &unwinder, &profile, threads, &arena) == 0);
}

/* A sample without any user state, and COUNT kernel frames. */
static struct record kernel_record(const uint64_t *ips, size_t count)
{
    return (struct record){.kind = RECORD_SAMPLE,
                           .sample = {.kernel_ips = ips, .kernel_ip_count = count}};
}

static struct thread thread_called(pid_t tid, const char *name)
{
    struct thread thread = {.tid = tid, .text = UINT32_MAX, .deep.watch = -1};
    strcpy(thread.name, name);
    return thread;
}

/* A sample at 0x1234 of an empty stack. */
static struct record user_record(void)
{
    static uint64_t registers[ARCH_PERF_REGISTER_COUNT], stack[4];
    registers[ARCH_PERF_INDEX_IP] = 0x1234;
    registers[ARCH_PERF_INDEX_SP] = 0x7000;
    return (struct record){.kind = RECORD_SAMPLE,
                           .sample = {.registers = registers,
                                      .stack = (const uint8_t *)stack,
                                      .stack_bytes = sizeof stack}};
}

static void check_text_frame(uint32_t frame, uint32_t kind, const char *text)
{
    REQUIRE(frame < profile_frame_count(&profile));
    CHECK_U64(profile_frame_at(&profile, frame)->module, kind);
    CHECK_STR(stack_text(&builder, profile_frame_at(&profile, frame)->address), text);
}

static void check_kernel_frame(uint32_t frame, uint64_t address)
{
    REQUIRE(frame < profile_frame_count(&profile));
    CHECK_U64(profile_frame_at(&profile, frame)->module, FRAME_OF_KERNEL);
    CHECK_U64(profile_frame_at(&profile, frame)->address, address);
}

TEST(without_user_state_there_are_thread_and_kernel)
{
    const uint64_t ips[] = {0xffffffff81000300, 0xffffffff81000200, 0xffffffff81000100};
    enum unwind_end end = UNWIND_CUT;
    struct thread thread = thread_called(42, "worker;1");
    prepare(&no_library, CONFIG_THREADS_NAME, 0);
    struct record record = kernel_record(ips, 3);
    REQUIRE(stack_frames(&builder, &thread, &record, &end) == 5);
    CHECK_U64(end, UNWIND_ROOT);
    check_text_frame(builder.frames[0], FRAME_OF_THREAD, "worker:1");
    check_text_frame(builder.frames[1], FRAME_OF_TEXT, "[exec]");
    check_kernel_frame(builder.frames[2], ips[2] - 1); /* in the calls, not behind them */
    check_kernel_frame(builder.frames[3], ips[1] - 1);
    check_kernel_frame(builder.frames[4], ips[0]); /* here the sample was taken */
}

TEST(threads_of_one_name_share_a_frame)
{
    enum unwind_end end;
    struct thread one = thread_called(42, "worker");
    struct thread two = thread_called(43, "worker");
    struct thread nameless = thread_called(44, "");
    struct record record = kernel_record(NULL, 0);
    prepare(&no_library, CONFIG_THREADS_NAME, 0);
    stack_frames(&builder, &one, &record, &end);
    uint32_t frame = builder.frames[0];
    stack_frames(&builder, &two, &record, &end);
    CHECK_U64(builder.frames[0], frame);
    stack_frames(&builder, &nameless, &record, &end);
    check_text_frame(builder.frames[0], FRAME_OF_THREAD, "?");
    prepare(&no_library, CONFIG_THREADS_TID, 0);
    one.text = two.text = UINT32_MAX;
    stack_frames(&builder, &one, &record, &end);
    check_text_frame(builder.frames[0], FRAME_OF_THREAD, "worker/42");
    frame = builder.frames[0];
    stack_frames(&builder, &two, &record, &end);
    check_text_frame(builder.frames[0], FRAME_OF_THREAD, "worker/43");
    stack_frames(&builder, &one, &record, &end);
    CHECK_U64(builder.frames[0], frame);
    prepare(&no_library, CONFIG_THREADS_NONE, 0);
    one.text = UINT32_MAX;
    CHECK_U64(stack_frames(&builder, &one, &record, &end), 1);
    check_text_frame(builder.frames[0], FRAME_OF_TEXT, "[exec]");
}

/* A server's thread is named after each request in turn: memory must not grow with time. */
TEST(a_thread_that_changes_its_name_back_has_its_frame_again)
{
    static const enum config_threads ways[] = {CONFIG_THREADS_NAME, CONFIG_THREADS_TID};
    static const char *const names[] = {"busy", "idle"};
    enum unwind_end end;
    struct record record = kernel_record(NULL, 0);
    for (unsigned way = 0; way < 2; way++) {
        struct thread thread = thread_called(42, "busy");
        uint32_t frames[2];
        prepare(&no_library, ways[way], 0);
        for (unsigned i = 0; i < 2; i++) {
            thread_rename(&thread, names[i]);
            stack_frames(&builder, &thread, &record, &end);
            frames[i] = builder.frames[0];
        }
        CHECK(frames[0] != frames[1]);
        for (unsigned i = 0; i < 100; i++) {
            thread_rename(&thread, names[i % 2]);
            stack_frames(&builder, &thread, &record, &end);
            CHECK_U64(builder.frames[0], frames[i % 2]);
        }
        CHECK_U64(profile_frame_count(&profile), 3); /* and that of [exec] */
    }
}

TEST(more_kernel_frames_than_are_kept)
{
    static uint64_t ips[2 * STACK_KERNEL_FRAMES_MAX];
    enum unwind_end end;
    struct thread thread = thread_called(42, "t");
    for (unsigned i = 0; i < 2 * STACK_KERNEL_FRAMES_MAX; i++)
        ips[i] = 0xffffffff81000000 + i;
    struct record record = kernel_record(ips, 2 * STACK_KERNEL_FRAMES_MAX);
    prepare(&no_library, CONFIG_THREADS_NAME, 0);
    size_t count = stack_frames(&builder, &thread, &record, &end);
    CHECK_U64(count, 2 + STACK_KERNEL_FRAMES_MAX);
    check_kernel_frame(builder.frames[count - 1], ips[0]); /* the leaf is among them */
}

TEST(the_users_part_is_root_first_in_link_addresses)
{
    const uint64_t ip = 0xffffffff81000001;
    enum unwind_end end;
    struct thread thread = thread_called(42, "main");
    const struct unwind_library *library = fixture_libunwind();
    if (library == NULL)
        SKIP("libunwind is not installed");
    prepare(library, CONFIG_THREADS_NAME, 0);
    fixture_sample_in(fixture_leaf, fixture_outer, &taken);
    taken.record.sample.kernel_ips = &ip;
    taken.record.sample.kernel_ip_count = 1;
    size_t count = stack_frames(&builder, &thread, &taken.record, &end);
    REQUIRE(count > 6);
    CHECK_U64(end, UNWIND_ROOT);
    check_text_frame(builder.frames[0], FRAME_OF_THREAD, "main");
    check_kernel_frame(builder.frames[count - 1], ip);
    const uint64_t expected[] = {taken.registers[ARCH_PERF_INDEX_IP], fixture_returns[0] - 1,
                                 fixture_returns[1] - 1, fixture_returns[2] - 1};
    for (unsigned i = 0; i < 4; i++) {
        const struct profile_frame *frame =
            profile_frame_at(&profile, builder.frames[count - 2 - i]);
        const struct region *region = modules_find(&modules, expected[i]);
        CHECK_U64(frame->module, region->module);
        CHECK_U64(frame->address, region_link_address(region, expected[i]));
    }
    modules_close(&modules);
}

TEST(our_own_frames_are_left_out)
{
    enum unwind_end end;
    struct thread thread = thread_called(42, "main");
    const struct unwind_library *library = fixture_libunwind();
    if (library == NULL)
        SKIP("libunwind is not installed");
    prepare(library, CONFIG_THREADS_NAME, address_of(fixture_leaf));
    fixture_sample_in(fixture_leaf, fixture_outer, &taken);
    size_t count = stack_frames(&builder, &thread, &taken.record, &end);
    uint32_t ours = modules_find(&modules, address_of(fixture_leaf))->module;
    CHECK(count >= 2); /* the thread, and libc's start */
    for (size_t i = 1; i < count; i++)
        CHECK(profile_frame_at(&profile, builder.frames[i])->module != ours);
    modules_close(&modules);
}

TEST(cut_stacks_are_marked_at_the_root)
{
    enum unwind_end end;
    struct thread thread = thread_called(42, "main");
    prepare(&no_library, CONFIG_THREADS_NAME, 0);
    fixture_sample_in(fixture_leaf, fixture_outer, &taken);
    taken.record.sample.stack_bytes = 8;
    size_t count = stack_frames(&builder, &thread, &taken.record, &end);
    REQUIRE(count >= 3);
    CHECK(end != UNWIND_ROOT);
    check_text_frame(builder.frames[0], FRAME_OF_THREAD, "main");
    check_text_frame(builder.frames[1], FRAME_OF_TEXT, "[truncated]");
    modules_close(&modules);
}

TEST(code_that_is_nowhere)
{
    enum unwind_end end;
    struct thread thread = thread_called(42, "main");
    struct record record = user_record();
    prepare(&no_library, CONFIG_THREADS_NAME, 0);
    size_t count = stack_frames(&builder, &thread, &record, &end);
    REQUIRE(count == 3);
    CHECK_U64(profile_frame_at(&profile, builder.frames[2])->module, FRAME_OF_UNKNOWN);
    CHECK_U64(profile_frame_at(&profile, builder.frames[2])->address, 0x1234);
}

/* Frames are kept by address, until the address is another's. */
TEST(two_libraries_at_one_address_in_turn)
{
    enum unwind_end end;
    struct thread thread = thread_called(42, "main");
    struct record record = user_record();
    static const char *const paths[] = {NULL, "/one", "/two", "/one"};
    prepare(&no_library, CONFIG_THREADS_NAME, 0);
    for (unsigned i = 0; i < 4; i++) {
        if (paths[i] != NULL)
            modules_map(&modules, 0x1000, 0x1000, 0, 1, paths[i]);
        for (unsigned again = 0; again < 2; again++) {
            REQUIRE(stack_frames(&builder, &thread, &record, &end) == 3);
            uint32_t module = profile_frame_at(&profile, builder.frames[2])->module;
            if (paths[i] == NULL)
                CHECK_U64(module, FRAME_OF_UNKNOWN);
            else
                CHECK_STR(modules_at(&modules, module)->path, paths[i]);
        }
    }
    modules_close(&modules);
}

static void tell_code(const char *path, const char *line)
{
    FILE *file = fopen(path, "a");
    REQUIRE(file != NULL && fputs(line, file) >= 0 && fclose(file) == 0);
}

/* Frames of such code are kept by address too, until the map tells something new. */
TEST(code_made_at_run_time)
{
    enum unwind_end end;
    struct thread thread = thread_called(42, "main");
    struct record record = user_record();
    record.time_ns = UINT64_MAX;
    static const char *const lines[] = {NULL, "1200 100 one\n", "1230 10 two\n", "5000 10 no\n"};
    static const char *const wanted[] = {NULL, "one", "two", "two"};
    static struct perf_map map;
    perf_map_init(&map, "/tmp", -(int)getpid()); /* nobody's */
    unlink(map.path);
    prepare(&no_library, CONFIG_THREADS_NAME, 0);
    modules_map(&modules, 0x1000, 0x1000, 0, 0, "//anon");
    builder.perf_map = &map;
    for (unsigned i = 0; i < 4; i++) {
        if (lines[i] != NULL)
            tell_code(map.path, lines[i]);
        perf_map_look(&map, UINT64_MAX);
        for (unsigned again = 0; again < 2; again++) {
            REQUIRE(stack_frames(&builder, &thread, &record, &end) == 3);
            const struct profile_frame *frame = profile_frame_at(&profile, builder.frames[2]);
            char name[64] = "";
            struct text text = text_over(name, sizeof name);
            CHECK_U64(frame->module == FRAME_OF_JIT, wanted[i] != NULL);
            if (frame->module == FRAME_OF_JIT)
                perf_map_put_name(&map, (uint32_t)frame->address, &text);
            if (wanted[i] != NULL)
                CHECK_STR(name, wanted[i]);
        }
    }
    unlink(map.path);
    perf_map_close(&map);
}

TEST(kernel_time_that_was_not_seen)
{
    struct thread thread = thread_called(42, "main");
    prepare(&no_library, CONFIG_THREADS_NAME, 0);
    stack_frames_book(&builder, &thread, "[kernel]", 500);
    stack_frames_book(&builder, &thread, "[kernel]", 250);
    REQUIRE(profile_node_count(&profile) == 2);
    CHECK_U64(profile_node_at(&profile, 1)->weight_ns, 750);
    CHECK_U64(profile_node_at(&profile, 1)->parent, 0);
    check_text_frame(profile_node_at(&profile, 0)->frame, FRAME_OF_THREAD, "main");
    check_text_frame(profile_node_at(&profile, 1)->frame, FRAME_OF_TEXT, "[kernel]");
    CHECK_U64(profile.weight_ns, 750);
}

TEST(texts_that_are_none)
{
    prepare(&no_library, CONFIG_THREADS_NAME, 0);
    CHECK_STR(stack_text(&builder, 0), "?");
    CHECK_STR(stack_text(&builder, UINT64_MAX), "?");
}

TEST(every_allocation_may_fail)
{
    const uint64_t ips[] = {0xffffffff81000003, 0xffffffff81000002};
    enum unwind_end end;
    for (int nth = 1; nth < 20; nth++) {
        struct thread thread = thread_called(42, "main");
        struct record record = kernel_record(ips, 2);
        prepare(&no_library, CONFIG_THREADS_NAME, 0);
        arena.fail_countdown = nth;
        CHECK_U64(stack_frames(&builder, &thread, &record, &end), 4);
        stack_frames_book(&builder, &thread, "[kernel]", 500);
        profile_add(&profile, builder.frames, 4, 1000, NULL);
        arena.fail_countdown = 0;
        CHECK_U64(stack_frames(&builder, &thread, &record, &end), 4);
        check_kernel_frame(builder.frames[3], ips[0]);
        check_text_frame(builder.frames[0], FRAME_OF_THREAD, "main");
    }
    for (int nth = 1; nth <= 2; nth++) {
        arena.fail_countdown = nth;
        CHECK_I64(stack_builder_init(&builder, &modules, &unwinder, &profile, CONFIG_THREADS_NAME,
                                     &arena),
                  -12 /* ENOMEM */);
        arena.fail_countdown = 0;
    }
}
