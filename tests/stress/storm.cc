/*
 * Everything at once, for argv[3] ms: threads that compute, throw, are born, cancelled and sent
 * signals; libraries that come and go; children that are forked, spawned and exec'd, and that end in
 * every way. What happens is drawn from the seed argv[1]; argv[2] is a plugin that throws
 * (tests/programs/plugin.cc). At the end it looks for what should not be there, says so, and leaves
 * with 0 if there is nothing.
 *
 * As `storm leaf SEED DEPTH` it is a child that computes for some ms and ends somehow.
 * Build: -pthread -ldl
 */
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <cerrno>
#include <random>
#include <spawn.h>
#include <stdexcept>
#include <string>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "../programs/burn.h"
#include "../programs/inventory.h"

extern char **environ;

static char self[4096]; /* not /proc/self/exe, which would name children exe */
static const char *plugin;
static std::atomic<bool> stop;
static std::atomic<long> forks, births, throws, loads, signals;

static long now_ms()
{
    timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000L + now.tv_nsec / 1000000;
}

BURNER(burn)

/* A sequence of its own for every thread and child, all from the one seed. */
class dice
{
  public:
    explicit dice(unsigned seed) : engine(seed) {}
    int below(int sides) { return static_cast<int>(engine() % static_cast<unsigned>(sides)); }

  private:
    std::mt19937 engine;
};

static void on_signal(int)
{
    int error = errno;

    burn(50);
    signals++;
    errno = error;
}

static void handlers_set()
{
    struct sigaction action = {};

    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    sigaction(SIGALRM, &action, nullptr);
    sigaction(SIGPROF, &action, nullptr);
}

/* ---- children ---- */

static void exec_leaf(dice &random, int depth)
{
    std::string seed = std::to_string(random.below(1 << 30)), left = std::to_string(depth);

    execl(self, "storm", "leaf", seed.c_str(), left.c_str(), static_cast<char *>(nullptr));
    _exit(120);
}

/* Ends this process, in one of many ways; most of them not polite. */
static void end_somehow(dice &random)
{
    static const int deadly[] = {SIGTERM, SIGKILL, SIGSEGV, SIGABRT, SIGHUP, SIGINT, SIGFPE};

    switch (random.below(6)) {
    case 0:
        exit(3);
    case 1:
        quick_exit(4);
    case 2:
        std::thread([] { exit(5); }).join();
        break;
    case 3:
        _exit(6);
    case 4: {
        int number = deadly[random.below(7)];

        signal(number, SIG_DFL);
        raise(number);
        break;
    }
    default:
        break;
    }
    exit(7);
}

static int leaf(unsigned seed, int depth)
{
    dice random(seed);
    std::vector<std::thread> threads;

    for (int i = random.below(3); i > 0; i--)
        threads.emplace_back([us = random.below(8000)] { burn(us); });
    burn(random.below(12000));
    try {
        throw std::runtime_error("leaf");
    } catch (const std::exception &) {
        throws++;
    }
    if (depth > 0 && random.below(3) == 0)
        exec_leaf(random, depth - 1); /* out of the midst of its threads */
    if (random.below(2) == 0)
        for (auto &thread : threads)
            thread.detach();
    else
        for (auto &thread : threads)
            thread.join();
    end_somehow(random);
    return 0;
}

/* In a forked child of a program with threads: nothing that could need a lock of theirs. */
[[noreturn]] static void forked_child(dice &random)
{
    burn(random.below(5000));
    switch (random.below(4)) {
    case 0:
        exec_leaf(random, 3);
        break;
    case 1:
        if (fork() == 0) { /* a daemon: nobody waits for it */
            setsid();
            burn(3000);
            _exit(0);
        }
        break;
    case 2:
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM);
        break;
    default:
        free(malloc(100000));
    }
    _exit(8);
}

static void reap(bool all)
{
    while (waitpid(-1, nullptr, all ? 0 : WNOHANG) > 0)
        ;
}

static void spawn_something(dice &random)
{
    pid_t pid;
    std::string seed = std::to_string(random.below(1 << 30));
    char *leaf_argv[] = {const_cast<char *>("storm"), const_cast<char *>("leaf"), seed.data(),
                         const_cast<char *>("1"), nullptr};
    char *true_argv[] = {const_cast<char *>("true"), nullptr};

    if (random.below(2) == 0)
        posix_spawn(&pid, self, nullptr, nullptr, leaf_argv, environ);
    else
        posix_spawn(&pid, "/bin/true", nullptr, nullptr, true_argv, environ);
}

static void forker(unsigned seed)
{
    dice random(seed);

    while (!stop) {
        if (random.below(3) == 0) {
            spawn_something(random);
        } else {
            unsigned child_seed = static_cast<unsigned>(random.below(1 << 30));
            pid_t pid = fork();

            if (pid == 0) {
                dice own(child_seed);
                forked_child(own);
            }
        }
        forks++;
        usleep(static_cast<useconds_t>(random.below(20000)));
        reap(false);
    }
}

/* ---- threads ---- */

static void *short_life(void *us)
{
    burn(reinterpret_cast<long>(us));
    if (reinterpret_cast<long>(us) % 3 == 0)
        pthread_exit(us);
    return nullptr;
}

static void *until_cancelled(void *unused)
{
    for (;;) {
        burn(200);
        usleep(100);
    }
    return unused;
}

static void creator(unsigned seed)
{
    dice random(seed);

    while (!stop) {
        pthread_t threads[8];
        int count = 1 + random.below(8);
        bool cancelled = random.below(4) == 0;

        for (int i = 0; i < count; i++)
            if (pthread_create(&threads[i], nullptr, cancelled ? until_cancelled : short_life,
                               reinterpret_cast<void *>(static_cast<long>(random.below(2000)))))
                count = i;
        for (int i = 0; i < count; i++) {
            if (cancelled)
                pthread_cancel(threads[i]);
            pthread_join(threads[i], nullptr);
        }
        births += count;
    }
}

static void thrower()
{
    while (!stop) {
        try {
            std::vector<int>().at(3);
        } catch (const std::out_of_range &) {
            throws++;
        }
    }
}

static void loader()
{
    while (!stop) {
        void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
        long (*inside)(long);

        if (library == nullptr)
            abort();
        *reinterpret_cast<void **>(&inside) = dlsym(library, "throw_inside");
        if (inside(20) != 20)
            abort();
        dlclose(library);
        loads++;
    }
}

static void signaller(unsigned seed, std::vector<pthread_t> targets)
{
    dice random(seed);

    while (!stop) {
        pthread_kill(targets[static_cast<size_t>(random.below(static_cast<int>(targets.size())))],
                     SIGUSR1);
        usleep(static_cast<useconds_t>(500 + random.below(3000)));
    }
}

static void timers_set(long us)
{
    itimerval timer = {{0, us}, {0, us}};

    setitimer(ITIMER_REAL, &timer, nullptr);
    setitimer(ITIMER_PROF, &timer, nullptr);
}

/* ---- what should not be there ---- */

static int complain(bool wrong, const char *what, int count)
{
    if (wrong)
        printf("left over: %d %s\n", count, what);
    return wrong;
}

static int look_around(int descriptors_before, int mappings_before)
{
    int wrong = 0, count = 0;

    /* Rings of threads that have ended are given back by and by: but for the first thread's. */
    for (int i = 0; i < 500 && (count = mappings_with("[perf_event]")) > 1; i++)
        usleep(10000);
    wrong += complain(count > 1, "mappings of rings", count);
    count = entries_of("/proc/self/fd");
    wrong += complain(count != descriptors_before, "descriptors", count);
    count = mappings_with("");
    wrong += complain(count > mappings_before + 200, "mappings", count);
    wrong += complain(wait(nullptr) != -1 || errno != ECHILD, "children", 1);
    return wrong;
}

int main(int argc, char **argv)
{
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return 2;
    if (argc > 3 && strcmp(argv[1], "leaf") == 0)
        return leaf(static_cast<unsigned>(atol(argv[2])), atoi(argv[3]));
    if (argc < 4)
        return 2;
    unsigned seed = static_cast<unsigned>(atol(argv[1]));
    plugin = argv[2];
    long end_ms = now_ms() + atol(argv[3]);
    int before = entries_of("/proc/self/fd"), mappings = mappings_with("");
    std::vector<std::thread> threads;
    std::vector<pthread_t> targets;

    handlers_set();
    timers_set(7000);
    threads.emplace_back([] { while (!stop) burn(1000); });
    threads.emplace_back(thrower);
    threads.emplace_back(loader);
    threads.emplace_back(creator, seed + 1);
    threads.emplace_back(forker, seed + 2);
    for (auto &thread : threads)
        targets.push_back(thread.native_handle());
    targets.push_back(pthread_self());
    threads.emplace_back(signaller, seed + 3, targets);
    while (now_ms() < end_ms)
        usleep(10000);
    timers_set(0);
    stop = true;
    /* The one that sends signals must be gone before those it sends them to. */
    for (size_t i = threads.size(); i-- > 0;)
        threads[i].join();
    reap(true);
    printf("%ld children, %ld short threads, %ld throws, %ld loads, %ld signals\n", forks.load(),
           births.load(), throws.load(), loads.load(), signals.load());
    return look_around(before, mappings) ? 1 : 0;
}
