/*
 * A program with an allocator of its own that does not stand a second user: it is not thread-safe
 * and checks that no call comes while another is inside, it aborts when a task calls it that it
 * does not know, and it takes a lock and calls dladdr. Allocates for 400 ms of CPU time; then a
 * thread runs that does not. So many keys of thread-specific data are taken that libc allocates for
 * further ones.
 *
 * Build: -pthread -ldl -fno-builtin
 */
#include "burn.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>

#define HEAP_BYTES (64UL << 20)

static char heap[HEAP_BYTES] __attribute__((aligned(16)));
static size_t used;
static volatile int inside, looking_up;
static pid_t owner;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void enter(void)
{
    pid_t caller = (pid_t)syscall(SYS_gettid);

    if (!owner)
        owner = caller;
    if (caller != owner || inside)
        abort();
    inside = 1;
}

static void look_up(void)
{
    Dl_info info;

    if (looking_up)
        return;
    looking_up = 1;
    pthread_mutex_lock(&lock);
    dladdr((void *)(uintptr_t)look_up, &info);
    pthread_mutex_unlock(&lock);
    looking_up = 0;
}

void *malloc(size_t bytes)
{
    char *block;

    enter();
    bytes = (bytes + 31) & ~(size_t)15;
    if (used + bytes > HEAP_BYTES)
        used = HEAP_BYTES / 2;
    block = heap + used;
    used += bytes;
    *(size_t *)(void *)block = bytes - 16;
    inside = 0;
    look_up();
    return block + 16;
}

void free(void *block)
{
    if (!block) /* as libc does in a thread that ends */
        return;
    enter();
    inside = 0;
}

void *calloc(size_t count, size_t bytes)
{
    void *block = malloc(count * bytes);

    return memset(block, 0, count * bytes);
}

void *realloc(void *block, size_t bytes)
{
    size_t old = block ? ((size_t *)block)[-2] : 0;
    void *moved = malloc(bytes);

    return memcpy(moved, block, old < bytes ? old : bytes);
}

OWN_FRAME static void allocate_us(long us)
{
    long end_ns = thread_cpu_ns() + us * 1000;

    while (thread_cpu_ns() < end_ns)
        for (int i = 0; i < 50; i++)
            free(malloc(100));
}

/* Before any library's constructor. */
static void take_keys(void)
{
    pthread_key_t key;

    for (int i = 0; i < 40; i++)
        if (pthread_key_create(&key, NULL) != 0)
            abort();
}

__attribute__((section(".preinit_array"),
               used)) static void (*const at_the_start)(void) = take_keys;

static void *nothing(void *unused)
{
    return unused;
}

int main(void)
{
    pthread_t thread;

    allocate_us(400000);
    puts("allocated");
    if (pthread_create(&thread, NULL, nothing, NULL) != 0)
        return 1;
    pthread_join(thread, NULL);
    return 0;
}
