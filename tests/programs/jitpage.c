/* clang-format off */
/*
 * Code made at run time: a page with outer(), which calls inner() and then computes half as long
 * itself. call_code() is its caller in C. argv[1] says what is told of it, in /tmp/perf-PID.map:
 *
 *     named    the names, before it is called
 *     late     the names, when a third of the time has passed
 *     nothing  nothing
 *     reused   inner is by turns "first_inner", called for 100 ms by call_first(), and
 *              "second_inner", called by call_second()
 *     again    the same, but the file is written anew each time
 *     gone     the names, in a file that is removed before the last 400 ms
 *     jumps    the names; inner is not called by outer, but by code that pushes an address and jumps
 *     stub     the names; between C and C is a stub without a frame pointer
 *     leaf     the name of a leaf that has no frame of its own, which is called for 300 ms before
 *
 * Prints its pid. 600 ms of CPU time, but for jumps and stub 300.
 */
/* clang-format on */
#include "burn.h"

#include <sys/mman.h>

typedef void (*code_entry)(long turns);

static const unsigned char inner_code[] = {
    0x55, 0x48, 0x89, 0xe5,       /* push %rbp; mov %rsp,%rbp */
    0x48, 0xff, 0xcf, 0x75, 0xfb, /* 1: dec %rdi; jnz 1b */
    0x5d, 0xc3,                   /* pop %rbp; ret */
};

static const unsigned char outer_code[] = {
    0x55, 0x48, 0x89, 0xe5, 0x57, 0x48, 0x83, 0xec, 0x08, /* a frame, with the argument in it */
    0x48, 0xb8, 0,    0,    0,    0,    0,    0,    0,    0, 0xff, 0xd0, /* call inner */
    0x48, 0x8b, 0x7d, 0xf8, 0x48, 0xd1, 0xef,                            /* half of the argument */
    0x48, 0xff, 0xcf, 0x75, 0xfb,                                        /* 1: dec %rdi; jnz 1b */
    0xc9, 0xc3,                                                          /* leave; ret */
};

static const unsigned char leaf_code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};

/* A frame; pushes the address of what is behind the jump to inner. */
static const unsigned char jumping_code[] = {
    0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x05, 0x12, 0,    0,    0,    0x50, 0x48, 0xb9, 0,    0,
    0,    0,    0,    0,    0,    0,    0xff, 0xe1, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc9, 0xc3,
};

/* sub $8, %rsp; call *%rsi; add $8, %rsp; ret */
static const unsigned char stub_code[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd6,
                                          0x48, 0x83, 0xc4, 0x08, 0xc3};

static unsigned char *page;

static void tell(const char *mode, const unsigned char *start, size_t bytes, const char *name)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    file = fopen(path, mode);
    if (!file)
        exit(2);
    fprintf(file, "%lx %zx %s\n", (unsigned long)start, bytes, name);
    fclose(file);
}

static void tell_both(void)
{
    tell("a", page, sizeof outer_code, "js outer; of the page");
    tell("a", page + 256, sizeof inner_code, "inner");
}

OWN_FRAME void call_code(const unsigned char *code, long us);
OWN_FRAME void call_code(const unsigned char *code, long us)
{
    long end_ns = thread_cpu_ns() + us * 1000;

    while (thread_cpu_ns() < end_ns)
        ((code_entry)(unsigned long)code)(400000);
    NOT_LAST();
}

OWN_FRAME void call_first(long us);
OWN_FRAME void call_first(long us)
{
    call_code(page, us);
    NOT_LAST();
}

OWN_FRAME void call_second(long us);
OWN_FRAME void call_second(long us)
{
    call_code(page, us);
    NOT_LAST();
}

static void reuse(const char *mode)
{
    for (int i = 0; i < 3; i++) {
        tell(mode, page + 256, sizeof inner_code, "first_inner");
        call_first(100000);
        tell(mode, page + 256, sizeof inner_code, "second_inner");
        call_second(100000);
    }
}

OWN_FRAME void below_stub(long us);
OWN_FRAME void below_stub(long us)
{
    burn_us(us);
}

OWN_FRAME void call_stub(long us);
OWN_FRAME void call_stub(long us)
{
    ((void (*)(long, void (*)(long)))(unsigned long)(page + 1024))(us, below_stub);
    NOT_LAST();
}

static void make_code(void)
{
    unsigned char *inner;

    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        exit(2);
    inner = page + 256;
    memcpy(page, outer_code, sizeof outer_code);
    memcpy(page + 11, &inner, sizeof inner);
    memcpy(inner, inner_code, sizeof inner_code);
    memcpy(page + 768, jumping_code, sizeof jumping_code);
    memcpy(page + 768 + 14, &inner, sizeof inner);
    memcpy(page + 1024, stub_code, sizeof stub_code);
    memcpy(page + 512, leaf_code, sizeof leaf_code);
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC))
        exit(2);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "nothing";
    char path[64];

    printf("%d\n", (int)getpid());
    make_code();
    if (!strcmp(how, "named") || !strcmp(how, "gone"))
        tell_both();
    if (!strcmp(how, "reused") || !strcmp(how, "again")) {
        reuse(!strcmp(how, "again") ? "w" : "a");
        return 0;
    }
    if (!strcmp(how, "jumps")) {
        tell_both();
        tell("a", page + 768, sizeof jumping_code, "jumping");
        call_code(page + 768, 300000);
        return 0;
    }
    if (!strcmp(how, "stub")) {
        tell("a", page + 1024, sizeof stub_code, "stub");
        call_stub(300000);
        return 0;
    }
    if (!strcmp(how, "leaf")) {
        tell("a", page + 512, sizeof leaf_code, "leaf");
        call_code(page + 512, 300000);
    }
    call_code(page, 200000);
    if (!strcmp(how, "gone")) {
        snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
        unlink(path);
    }
    if (!strcmp(how, "late"))
        tell_both();
    call_code(page, 400000);
    return 0;
}
