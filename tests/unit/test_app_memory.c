/* app_memory: reads of what is there, of what is not, and of what has changed. */
#include "app_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "refusal.h"
#include "sys.h"

#define PAGE 4096u

static struct arena arena;

static struct app_memory fresh(void)
{
    struct app_memory memory;
    arena_destroy(&arena);
    app_memory_init(&memory, &arena);
    return memory;
}

static uint8_t *pages(size_t count, int protection)
{
    void *memory = mmap(NULL, count * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static uint64_t address_of(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

TEST(reads_across_pages)
{
    struct app_memory memory = fresh();
    uint8_t *at = pages(3, PROT_READ | PROT_WRITE), copy[PAGE + 9];
    REQUIRE(at != NULL && memory.pages != NULL);
    for (size_t i = 0; i < 3 * PAGE; i++)
        at[i] = (uint8_t)(i * 7 + i / PAGE);
    CHECK_I64(app_memory_read(&memory, address_of(at + PAGE - 5), copy, sizeof copy), 0);
    CHECK_MEM(copy, at + PAGE - 5, sizeof copy);
    memset(copy, 0, sizeof copy);
    CHECK_I64(app_memory_copy(&memory, address_of(at + PAGE - 5), copy, sizeof copy), 0);
    CHECK_MEM(copy, at + PAGE - 5, sizeof copy);
    CHECK_I64(app_memory_read(&memory, address_of(at), copy, 0), 0);
    munmap(at, 3 * PAGE);
}

TEST(a_page_is_kept_until_it_is_forgotten)
{
    struct app_memory memory = fresh();
    uint8_t *at = pages(1, PROT_READ | PROT_WRITE), byte = 0;
    REQUIRE(at != NULL);
    at[100] = 1;
    CHECK_I64(app_memory_read(&memory, address_of(at + 100), &byte, 1), 0);
    CHECK_U64(byte, 1);
    at[100] = 2;
    CHECK_I64(app_memory_read(&memory, address_of(at + 100), &byte, 1), 0);
    CHECK_U64(byte, 1);
    CHECK_I64(app_memory_copy(&memory, address_of(at + 100), &byte, 1), 0);
    CHECK_U64(byte, 2);
    app_memory_forget(&memory);
    at[100] = 3;
    CHECK_I64(app_memory_read(&memory, address_of(at + 100), &byte, 1), 0);
    CHECK_U64(byte, 3);
    munmap(at, PAGE);
}

TEST(what_may_change_is_kept_for_what_happened_before_it_was_read)
{
    struct app_memory memory = fresh();
    uint8_t *at = pages(2, PROT_READ | PROT_WRITE), bytes[2] = {0, 0};
    REQUIRE(at != NULL && memory.pages != NULL);
    uint64_t place = address_of(at + PAGE - 1), before_ns = sys_clock_ns(CLOCK_MONOTONIC);
    at[PAGE - 1] = at[PAGE] = 1;
    CHECK_I64(app_memory_read_since(&memory, before_ns, place, bytes, 2), 0);
    at[PAGE - 1] = at[PAGE] = 2;
    CHECK_I64(app_memory_read_since(&memory, before_ns, place, bytes, 2), 0);
    CHECK_U64(bytes[0] + 10u * bytes[1], 11);
    uint64_t after_ns = sys_clock_ns(CLOCK_MONOTONIC) + 1;
    while (sys_clock_ns(CLOCK_MONOTONIC) < after_ns)
        continue;
    CHECK_I64(app_memory_read_since(&memory, after_ns, place, bytes, 2), 0);
    CHECK_U64(bytes[0] + 10u * bytes[1], 22);
    at[PAGE - 1] = at[PAGE] = 3;
    CHECK_I64(app_memory_read(&memory, place, bytes, 2), 0);
    CHECK_U64(bytes[0] + 10u * bytes[1], 22);
    CHECK_I64(app_memory_read_since(&memory, UINT64_MAX, place, bytes, 2), 0);
    CHECK_U64(bytes[0] + 10u * bytes[1], 33);
    munmap(at + PAGE, PAGE);
    CHECK_I64(app_memory_read_since(&memory, UINT64_MAX, place, bytes, 2), -EFAULT);
    munmap(at, PAGE);
}

TEST(what_is_not_there_cannot_be_read)
{
    struct app_memory memory = fresh();
    uint8_t *at = pages(3, PROT_READ | PROT_WRITE), copy[16];
    REQUIRE(at != NULL);
    munmap(at + PAGE, PAGE);
    mprotect(at + 2 * PAGE, PAGE, PROT_NONE);
    static const uint64_t offsets[] = {PAGE, PAGE - 8, 2 * PAGE, 3 * PAGE - 8};
    /* Where the file of the memory must do, all that is mapped is there. */
    bool by_call = syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0) == 0;
    for (unsigned i = 0; i < (by_call ? 4 : 2); i++) {
        CHECK_I64(app_memory_read(&memory, address_of(at) + offsets[i], copy, 16), -EFAULT);
        CHECK_I64(app_memory_copy(&memory, address_of(at) + offsets[i], copy, 16), -EFAULT);
    }
    CHECK_I64(app_memory_read(&memory, address_of(at), copy, 16), 0);
    munmap(at, PAGE);
    munmap(at + 2 * PAGE, PAGE);
}

TEST(addresses_that_are_none)
{
    static const uint64_t addresses[] = {
        0, 8, 4095, 0x8000000000000000, UINT64_MAX - 7, UINT64_MAX - 15, 0xffffffff81000000};
    struct app_memory memory = fresh();
    uint8_t copy[16];
    for (unsigned i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        CHECK_I64(app_memory_read(&memory, addresses[i], copy, 16), -EFAULT);
        CHECK_I64(app_memory_copy(&memory, addresses[i], copy, 16), -EFAULT);
    }
}

/* A file that is cut while it is mapped: a load would raise SIGBUS. */
TEST(a_mapping_without_its_file)
{
    struct app_memory memory = fresh();
    char name[] = "/tmp/selfsample-unit-XXXXXX";
    uint8_t byte;
    int fd = mkstemp(name);
    REQUIRE(fd >= 0 && unlink(name) == 0 && ftruncate(fd, PAGE) == 0);
    uint8_t *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    REQUIRE(at != MAP_FAILED && ftruncate(fd, 0) == 0);
    CHECK_I64(app_memory_read(&memory, address_of(at), &byte, 1), -EFAULT);
    munmap(at, PAGE);
    close(fd);
}

static int without_the_call(void)
{
    uint8_t *at = pages(2, PROT_READ | PROT_WRITE), copy[16];
    if (at == NULL || refuse(SYS_process_vm_readv, ENOSYS) != 0)
        return 77;
    arena_init(&arena, 64u << 20); /* a child has no copy of what was in it */
    struct app_memory memory = fresh();
    memset(at, 3, PAGE);
    munmap(at + PAGE, PAGE);
    if (app_memory_copy(&memory, address_of(at), copy, sizeof copy) != 0 || copy[15] != 3 ||
        app_memory_read(&memory, address_of(at), copy, sizeof copy) != 0)
        return 1;
    if (app_memory_copy(&memory, address_of(at) + PAGE - 8, copy, sizeof copy) != -EFAULT ||
        app_memory_copy(&memory, UINT64_MAX - 7, copy, 8) != -EFAULT)
        return 2;
    app_memory_close(&memory);
    return memory.fd == -1 ? 0 : 3;
}

TEST(by_the_file_where_the_call_is_refused)
{
    int result = in_child(without_the_call);
    if (result == 77)
        SKIP("no seccomp filter");
    CHECK_I64(result, 0);
}

/* The third of four can't be read: it ends there. */
TEST(brought_in)
{
    struct app_memory memory = fresh();
    uint8_t *at = pages(4, PROT_READ | PROT_WRITE), there[4];
    REQUIRE(at != NULL);
    if (mincore(at, 4 * PAGE, there) != 0)
        SKIP("which pages are there is not told");
    for (unsigned i = 0; i < 4; i++)
        CHECK_U64(there[i] & 1, 0);
    REQUIRE(mprotect(at + 2 * PAGE, PAGE, PROT_NONE) == 0);
    app_memory_bring_in(&memory, address_of(at) + PAGE - 8, 3 * PAGE);
    if (mincore(at, 4 * PAGE, there) != 0)
        SKIP("which pages are there is told at times"); /* qemu takes the answer for a string */
    const uint8_t wanted[4] = {1, 1, 0, 0};
    for (unsigned i = 0; i < 4; i++)
        CHECK_U64(there[i] & 1, wanted[i]);
    munmap(at, 4 * PAGE);
}

/* More pages than are kept, so that they evict each other. */
TEST(many_pages)
{
    const size_t count = 3 * APP_MEMORY_PAGES;
    struct app_memory memory = fresh();
    uint8_t *at = pages(count, PROT_READ | PROT_WRITE);
    REQUIRE(at != NULL);
    for (size_t i = 0; i < count; i++)
        memcpy(at + i * PAGE + 8, &i, sizeof i);
    for (unsigned round = 0; round < 2; round++)
        for (size_t i = 0; i < count; i++) {
            size_t value = 0;
            CHECK_I64(app_memory_read(&memory, address_of(at + i * PAGE + 8), &value, 8), 0);
            CHECK_U64(value, i);
        }
    munmap(at, count * PAGE);
}

TEST(without_memory_for_pages)
{
    struct app_memory memory;
    uint8_t value = 5, byte = 0;
    arena.fail_countdown = 1;
    app_memory_init(&memory, &arena);
    arena.fail_countdown = 0;
    CHECK(memory.pages == NULL);
    CHECK_I64(app_memory_read(&memory, address_of(&value), &byte, 1), 0);
    CHECK_U64(byte, 5);
    CHECK_I64(app_memory_read(&memory, 0, &byte, 1), -EFAULT);
    app_memory_forget(&memory);
}
