// Two std::threads and a std::async, 300 ms each in in_thread().
// Build: -pthread
#include <future>
#include <thread>

#include "burn.h"

extern "C" {
BURNER(in_thread)
}

int main()
{
    std::thread first(in_thread, 300000L), second([] { in_thread(300000); });
    auto third = std::async(std::launch::async, [] { in_thread(300000); });

    third.wait();
    first.join();
    second.join();
    puts("joined");
    return 0;
}
