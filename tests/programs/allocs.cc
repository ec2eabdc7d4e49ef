/*
 * Three threads and main that allocate, pass on and free blocks of many sizes, and throw now and
 * then, argv[1] ms of CPU time each in allocate(). Prints how many threads found their blocks intact.
 * Build: -pthread
 */
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> intact;

static long cpu_ms()
{
    timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000L + now.tv_nsec / 1000000;
}

__attribute__((noinline)) static bool one_round(unsigned seed)
{
    std::vector<std::string> words;

    for (unsigned i = 0; i < 200; i++)
        words.emplace_back(seed * i % 4001, static_cast<char>('a' + i % 26));
    for (unsigned i = 0; i < 200; i++)
        if (words[i].size() != seed * i % 4001 ||
            (!words[i].empty() && words[i].back() != static_cast<char>('a' + i % 26)))
            throw std::runtime_error("a block has changed");
    try {
        words.at(200);
    } catch (const std::out_of_range &) {
        return true;
    }
    return false;
}

__attribute__((noipa)) void allocate(long ms)
{
    long end_ms = cpu_ms() + ms;
    bool good = true;

    for (unsigned seed = 1; cpu_ms() < end_ms; seed++)
        good &= one_round(seed);
    intact += good;
}

int main(int argc, char **argv)
{
    long ms = argc > 1 ? strtol(argv[1], nullptr, 10) : 200;
    std::vector<std::thread> threads;

    for (int i = 0; i < 3; i++)
        threads.emplace_back(allocate, ms);
    allocate(ms);
    for (auto &thread : threads)
        thread.join();
    std::cout << "intact: " << intact << std::endl;
    return 4;
}
