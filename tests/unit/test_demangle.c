/* demangle against c++filt, against the examples of the Rust and D references, and against names
 * that are made to be too much. */
#include "demangle.h"

#include <pthread.h>

#include "elf_fixture.h"

static struct arena names, scratch;

static const char *shown(const char *mangled)
{
    const char *name = demangle(mangled, &names, &scratch);
    CHECK_U64(scratch.mapped_bytes, 0);
    return name;
}

TEST(cpp)
{
    CHECK_STR(shown("_ZN3foo3barEi"), "foo::bar(int)");
    CHECK_STR(shown("_ZNSt6vectorIiSaIiEE9push_backEOi"),
              "std::vector<int, std::allocator<int> >::push_back(int&&)");
    CHECK_STR(shown("_ZNKSs4sizeEv"), "std::string::size() const");
    CHECK_STR(shown("_ZZ4mainENKUlvE_clEv"), "main::{lambda()#1}::operator()() const");
    CHECK_STR(shown("_Z1fv.constprop.0"), "f() [clone .constprop.0]");
    CHECK_STR(shown("_GLOBAL__I__Z1fv"), "global constructors keyed to f()");
}

/* Both manglings of one function, from the Rust reference; the hash is dropped. */
TEST(rust)
{
    CHECK_STR(shown("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
    CHECK_STR(shown("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
                    "3bar17h930b740aa94f1d3aE"),
              "<Test + 'static as foo::Bar<Test>>::bar");
    CHECK_STR(shown("_RNvC6_123foo3bar"), "123foo::bar");
    CHECK_STR(shown("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_"), "cc::spawn::{closure#0}::{closure#0}");
    CHECK_STR(shown("_RMC0INtC8arrayvec8ArrayVechKj7b_E"), "<arrayvec::ArrayVec<u8, 123>>");
}

TEST(d)
{
    CHECK_STR(shown("_Dmain"), "D main");
    CHECK_STR(shown("_D8demangle4testFaZv"), "demangle.test(char)");
    CHECK_STR(shown("_D8demangle__T2fnVii123Z2fnMFNaNbZi"), "demangle.fn!(123).fn()");
}

TEST(what_is_not_mangled_stays)
{
    static const char *const plain[] = {"main",
                                        "_start",
                                        "_Z",
                                        "_ZN",
                                        "_R",
                                        "_D",
                                        "_",
                                        "",
                                        "__libc_start_main",
                                        "_ZNhalf",
                                        "_Znot mangled",
                                        "_RNv",
                                        "_D9",
                                        "_Global",
                                        "_GLOBAL_OFFSET_TABLE_"};
    for (unsigned i = 0; i < sizeof plain / sizeof plain[0]; i++)
        CHECK(shown(plain[i]) == plain[i]);
}

TEST(a_name_never_breaks_a_line)
{
    CHECK_STR(shown("a;b\nc\td\x7f"), "a:b_c_d_");
    CHECK_STR(shown("gr\xc3\xbc\xc3\x9f e"), "gr\xc3\xbc\xc3\x9f e");
    CHECK_STR(shown("_ZN3a;b3barEi"), "a:b::bar(int)");
    char name[2] = "";
    for (int c = 1; c < 256; c++) {
        name[0] = (char)c;
        unsigned char result = (unsigned char)shown(name)[0];
        CHECK_U64(result, c == ';' ? ':' : c < 32 || c == 127 ? '_' : c);
    }
}

/* All that libstdc++ exports, and what a C++ program of this machine is made of. */
TEST(every_name_of_libstdcxx_is_as_cxxfilt_has_it)
{
    static char mangled[8192], expected[65536];
    unsigned seen = 0;
    REQUIRE(
        fixture_run("nm -D --defined-only '%s' | cut -d' ' -f3 | cut -d@ -f1 | sort -u > mangled "
                    "&& c++filt -i < mangled > expected",
                    fixture_library("libstdc++.so.6")));
    FILE *one = fopen(fixture_path("mangled"), "r"), *other = fopen(fixture_path("expected"), "r");
    REQUIRE(one != NULL && other != NULL);
    while (fgets(mangled, sizeof mangled, one) != NULL &&
           fgets(expected, sizeof expected, other) != NULL) {
        mangled[strcspn(mangled, "\n")] = expected[strcspn(expected, "\n")] = '\0';
        CHECK_STR(shown(mangled), expected);
        seen++;
    }
    fclose(one);
    fclose(other);
    CHECK(seen > 4000);
}

/* 400 template arguments: longer than libiberty's own limit. */
TEST(a_name_of_three_kilobytes_is_demangled)
{
    static char mangled[4000], expected[16000];
    char *at = mangled + sprintf(mangled, "_Z1fI");
    char *out = expected + sprintf(expected, "void f<");
    for (unsigned i = 0; i < 400; i++) {
        at += sprintf(at, "7class%02u", i % 100);
        out += sprintf(out, "%sclass%02u", i == 0 ? "" : ", ", i % 100);
    }
    sprintf(at, "EvT_");
    sprintf(out, ">(class00)");
    CHECK(strlen(mangled) > 3000);
    CHECK_STR(shown(mangled), expected);
}

TEST(too_long_an_input_stays)
{
    static char name[1024 * 1024 + 1];
    memset(name, 'x', sizeof name - 1);
    memcpy(name, "_ZN5000000", 10);
    CHECK(shown(name) == name);
}

/* Each pair is of two of the one before: 2^36 words of output from 400 bytes of name. */
static void doubling_make(char *at, unsigned pairs)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    at += sprintf(at, "_Z1fSt4pairIiiE"); /* S_ is std::pair, S0_ std::pair<int, int> */
    for (unsigned i = 0; i + 1 < pairs; i++)
        at += sprintf(at, "S_IS%c_S%c_E", digits[i], digits[i]);
}

TEST(too_long_an_output_stays_mangled)
{
    char name[2048];
    doubling_make(name, 2);
    CHECK_STR(shown(name), "f(std::pair<int, int>, "
                           "std::pair<std::pair<int, int>, std::pair<int, int> >)");
    doubling_make(name, 36);
    CHECK(shown(name) == name);
    CHECK_STR(shown("_ZN3foo3barEi"), "foo::bar(int)"); /* and leaves nothing behind */
}

/* Rust refers back to a position in the name, in base 62: tuples of two of the tuple before. */
static void tuples_make(char *name, unsigned tuples)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char *at = name + sprintf(name, "_RINvC1a1fThhE");
    size_t last = strlen("INvC1a1f"); /* positions are counted behind "_R"; B_ is 0, B0_ is 1 */
    for (unsigned i = 0; i + 1 < tuples; i++) {
        char number[3] = {digits[(last - 1) / 62], digits[(last - 1) % 62]};
        const char *shortest = number[0] == '0' ? number + 1 : number;
        last = (size_t)(at - name) - 2;
        at += sprintf(at, "TB%s_B%s_E", shortest, shortest);
    }
    strcpy(at, "E");
}

TEST(too_long_an_output_of_rust_stays_mangled)
{
    char name[1024];
    tuples_make(name, 2);
    CHECK_STR(shown(name), "a::f::<(u8, u8), ((u8, u8), (u8, u8))>");
    tuples_make(name, 36);
    CHECK(shown(name) == name);
}

/* What is deeply nested must get along with the stack that the header asks for. */
static void *nested_run(void *unused)
{
    static char name[DEMANGLE_INPUT_BYTES + 1];
    static const char *const units[] = {"P",  "R",  "K",   "A_",   "F",  "N", "I",    "St4pairI",
                                        "S_", "Dp", "X",   "LZ",   "cv", "T", "B",    "M",
                                        "J",  "O",  "1aI", "DTcl", "Z",  "Q", "__T1a"};
    static const char *const prefixes[] = {"_Z1f", "_ZN1a", "_Z1fI",   "_R",   "_RINvC1a1f",
                                           "_D1a", "_D1aF", "_ZNK1aI", "_Zcv", "_RNv"};
    for (unsigned p = 0; p < sizeof prefixes / sizeof prefixes[0]; p++) {
        for (unsigned u = 0; u < sizeof units / sizeof units[0]; u++) {
            size_t length = strlen(prefixes[p]);
            memcpy(name, prefixes[p], length);
            while (length + strlen(units[u]) < sizeof name - 1) {
                memcpy(name + length, units[u], strlen(units[u]));
                length += strlen(units[u]);
            }
            name[length] = '\0';
            demangle(name, &names, &scratch);
            memcpy(name + length / 2, "iEEEEEEEEE", 10);
            demangle(name, &names, &scratch);
        }
    }
    return unused;
}

TEST(nested_names_keep_to_the_stack)
{
    pthread_attr_t attributes;
    pthread_t thread;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstacksize(&attributes, DEMANGLE_STACK_BYTES) == 0);
    REQUIRE(pthread_create(&thread, &attributes, nested_run, NULL) == 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* libiberty parses what follows each "cvT_I" twice: 2^50 times at the end of this name. */
TEST(names_that_would_take_for_ever_stay_mangled)
{
    static const char *const units[] = {"cvT_I", "cvKT_I", "cvPT0_I"};
    for (unsigned u = 0; u < 3; u++) {
        char name[512] = "_Z";
        for (unsigned i = 0; i < 50; i++)
            strcat(name, units[u]);
        CHECK(shown(name) == name);
    }
    CHECK_STR(shown("_ZN1acvT_IiEI1bEEv"), "a::operator b<int><b>()");
}

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* Pieces of real names in a random order: no crash, and the output is fit. */
TEST(random_names)
{
    static const char *const pieces[] = {"N",     "E",     "I",
                                         "S_",    "St",    "S0_",
                                         "T_",    "T0_",   "1a",
                                         "3foo",  "i",     "v",
                                         "P",     "R",     "O",
                                         "K",     "cv",    "cl",
                                         "L",     "i1",    "Z",
                                         "UlvE_", "C1",    "D0",
                                         "J",     "Dp",    "sr",
                                         "X",     "B",     "B0_",
                                         "C",     "Nv",    "NtC",
                                         "M",     "F",     "__T",
                                         "Q",     "h",     "17h0123456789abcdefE",
                                         "$LT$",  "..",    "p",
                                         "T",     "A",     "j",
                                         "K",     "s_",    "u3abc",
                                         "_",     "Dv4_f", "DTcl",
                                         "tl"};
    static const char *const prefixes[] = {"_Z", "_ZN", "_R", "_D", "_GLOBAL__I_", "_RI", "_D3foo"};
    uint32_t state = 7;
    for (unsigned round = 0; round < 60000; round++) {
        char name[600];
        strcpy(name, prefixes[random_next(&state) % 7]);
        unsigned count = random_next(&state) % 40;
        for (unsigned i = 0; i < count; i++)
            strcat(name, pieces[random_next(&state) % (sizeof pieces / sizeof pieces[0])]);
        struct arena_mark mark = arena_mark(&names);
        const char *text = demangle(name, &names, &scratch);
        CHECK(strlen(text) > 0 && strlen(text) <= DEMANGLE_OUTPUT_BYTES);
        arena_release(&names, mark);
    }
}

TEST(no_memory)
{
    struct arena failing;
    arena_init(&failing, 0);
    for (int nth = 1; nth < 4; nth++) {
        failing.fail_countdown = nth;
        const char *name = demangle("_D8demangle4testFaZv", &names, &failing);
        CHECK(strcmp(name, "_D8demangle4testFaZv") == 0 ||
              strcmp(name, "demangle.test(char)") == 0);
    }
    failing.fail_countdown = 1;
    CHECK_STR(demangle("_ZN3foo3barEi", &failing, &scratch), "_ZN3foo3barEi");
    failing.fail_countdown = 1;
    CHECK_STR(demangle("a;b", &failing, &scratch), "[no memory for this name]");
    arena_destroy(&failing);
}
