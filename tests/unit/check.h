/*
 * The frame of every unit test: include it once, in the one file of the test program.
 *
 *     #include "check.h"
 *
 *     TEST(a_new_ring_is_empty)
 *     {
 *         CHECK(ring_next(&ring) == NULL);
 *         CHECK_U64(ring.lost, 0);
 *     }
 *
 * It brings main(), which runs the tests in the order of the file (or those named on the command
 * line), prints "ok NAME", "not ok NAME file:line: what" or "skip NAME why" for each, and at the
 * end "N passed, N failed" (", N skipped" where there are any). Exit status: 0, 1 when one failed,
 * 77 when all were skipped.
 *
 * CHECK* notes a failure and goes on; REQUIRE ends the test there, for what the rest stands on;
 * SKIP ends it where the machine cannot run it. All of them must run in the thread of main().
 */
#ifndef SELFSAMPLE_TESTS_CHECK_H
#define SELFSAMPLE_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct check_test {
    const char *name;
    void (*run)(void);
    struct check_test *next;
};

static struct check_test *check_first, **check_end = &check_first;
static unsigned check_failures; /* of the test that runs */
static char check_text[1024];   /* its first failure, or why it is skipped */
static bool check_skipped;
static jmp_buf check_leave;

static inline void check_add(struct check_test *test)
{
    *check_end = test;
    check_end = &test->next;
}

__attribute__((format(printf, 3, 4))) static inline void check_fail(const char *file, int line,
                                                                    const char *format, ...)
{
    char what[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (check_failures++ == 0)
        snprintf(check_text, sizeof check_text, "%s:%d: %s", file, line, what);
    else
        printf("# %s:%d: %s\n", file, line, what);
}

static inline void check_u64(const char *file, int line, const char *expression, uint64_t actual,
                             uint64_t expected)
{
    if (actual != expected)
        check_fail(file, line, "%s is %llu (%#llx), not %llu (%#llx)", expression,
                   (unsigned long long)actual, (unsigned long long)actual,
                   (unsigned long long)expected, (unsigned long long)expected);
}

static inline void check_i64(const char *file, int line, const char *expression, int64_t actual,
                             int64_t expected)
{
    if (actual != expected)
        check_fail(file, line, "%s is %lld, not %lld", expression, (long long)actual,
                   (long long)expected);
}

static inline void check_str(const char *file, int line, const char *expression, const char *actual,
                             const char *expected)
{
    if (actual == NULL || expected == NULL) {
        if (actual != expected)
            check_fail(file, line, "%s is %s, not %s", expression, actual ? actual : "NULL",
                       expected ? expected : "NULL");
    } else if (strcmp(actual, expected) != 0) {
        check_fail(file, line, "%s is \"%s\", not \"%s\"", expression, actual, expected);
    }
}

static inline void check_mem(const char *file, int line, const char *expression, const void *actual,
                             const void *expected, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned have = ((const unsigned char *)actual)[i];
        unsigned want = ((const unsigned char *)expected)[i];
        if (have == want)
            continue;
        check_fail(file, line, "%s: byte %zu is %#04x, not %#04x", expression, i, have, want);
        return;
    }
}

#define TEST(test_name)                                                                            \
    static void test_##test_name(void);                                                            \
    static struct check_test check_test_##test_name = {#test_name, test_##test_name, NULL};        \
    __attribute__((constructor)) static void check_add_##test_name(void)                           \
    {                                                                                              \
        check_add(&check_test_##test_name);                                                        \
    }                                                                                              \
    static void test_##test_name(void)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_fail(__FILE__, __LINE__, "%s", #condition);                                      \
    } while (0)

/* Integers of any width: the first is what the code gave, the second what it should be. */
#define CHECK_U64(actual, expected)                                                                \
    check_u64(__FILE__, __LINE__, #actual, (uint64_t)(actual), (uint64_t)(expected))
#define CHECK_I64(actual, expected)                                                                \
    check_i64(__FILE__, __LINE__, #actual, (int64_t)(actual), (int64_t)(expected))
#define CHECK_STR(actual, expected) check_str(__FILE__, __LINE__, #actual, actual, expected)
#define CHECK_MEM(actual, expected, bytes)                                                         \
    check_mem(__FILE__, __LINE__, #actual, actual, expected, bytes)

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_fail(__FILE__, __LINE__, "%s", #condition);                                      \
            longjmp(check_leave, 1);                                                               \
        }                                                                                          \
    } while (0)

#define SKIP(why)                                                                                  \
    do {                                                                                           \
        check_skipped = true;                                                                      \
        snprintf(check_text, sizeof check_text, "%s", why);                                        \
        longjmp(check_leave, 1);                                                                   \
    } while (0)

static inline void check_run(const struct check_test *test)
{
    check_failures = 0;
    check_skipped = false;
    if (setjmp(check_leave) == 0)
        test->run();
    if (check_failures != 0)
        printf("not ok %s %s\n", test->name, check_text);
    else if (check_skipped)
        printf("skip %s %s\n", test->name, check_text);
    else
        printf("ok %s\n", test->name);
}

static inline bool check_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    unsigned passed = 0, failed = 0, skipped = 0;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not swallow the lines before it */
    for (struct check_test *test = check_first; test != NULL; test = test->next) {
        if (!check_wanted(test->name, argc, argv))
            continue;
        check_run(test);
        failed += check_failures != 0;
        skipped += check_failures == 0 && check_skipped;
        passed += check_failures == 0 && !check_skipped;
    }
    printf("%u passed, %u failed", passed, failed);
    if (skipped != 0)
        printf(", %u skipped", skipped);
    printf("\n");
    if (failed != 0 || passed + skipped == 0)
        return 1;
    return passed == 0 ? 77 : 0;
}

#endif
