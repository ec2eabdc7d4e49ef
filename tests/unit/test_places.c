/*
 * The file of places: what it says, with the expected text written by hand, and where it may stand.
 */
#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#define NO_MODULE 0xfffffff0u /* as stack_frames.h has them */

static struct arena arena;
static struct app_memory memory;
static struct modules modules;
static struct profile profile;
static struct outfile folded, out;
static char directory[64];
static int directory_fd;
static int64_t *owed_ns;
static char result[1u << 16];

static const char *frame_name(void *context, uint32_t frame)
{
    static const char *const names[] = {"thread", "main", "f(int: char)", NULL};
    CHECK(context == &profile);
    return names[frame];
}

static void prepare(void)
{
    arena_destroy(&arena);
    app_memory_init(&memory, &arena);
    modules_init(&modules, &arena, &memory, 0);
    profile_init(&profile, &arena);
    strcpy(directory, "/tmp/test_places.XXXXXX");
    REQUIRE(mkdtemp(directory) != NULL);
    directory_fd = open(directory, O_RDONLY | O_DIRECTORY);
    memset(&out, 0, sizeof out);
}

static void done(void)
{
    static const char *const names[] = {"f", "f.places", "g", "g.places"};
    places_close(&out);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlinkat(directory_fd, names[i], 0);
    close(directory_fd);
    CHECK_I64(rmdir(directory), 0);
}

/* A folded file of that name, as publish.c has it when the places are written. */
static void folded_make(const char *name)
{
    REQUIRE(outfile_init(&folded, directory_fd, name) == 0 && outfile_begin(&folded) == 0);
    outfile_put(&folded, "thread;main 1\n", 14);
    REQUIRE(outfile_commit(&folded) == 0);
}

static struct module *module_add(const char *path, uint64_t inode)
{
    static uint64_t start = 0x10000;
    modules_map(&modules, start, 0x1000, 0, inode, path);
    start += 0x10000;
    return modules_at(&modules, modules_count(&modules) - 1);
}

static void stack_add(const uint32_t *frames, size_t count, uint64_t weight_ns)
{
    REQUIRE(profile_add(&profile, frames, count, weight_ns, NULL) == 0);
}

static const char *places(void)
{
    struct places all = {&profile,    {frame_name, &profile}, owed_ns, &modules, 1001001,
                         folded.bytes};
    REQUIRE(places_begin(&out, &folded) == 0);
    CHECK_I64(places_write(&all, &out), 0);
    CHECK_I64(outfile_commit(&out), 0);
    int fd = openat(directory_fd, "f.places", O_RDONLY);
    ssize_t length = read(fd, result, sizeof result - 1);
    result[length < 0 ? 0 : length] = '\0';
    close(fd);
    return result;
}

TEST(what_a_series_owes)
{
    prepare();
    int64_t owed[] = {0, -5, 0, INT64_MIN};
    const uint32_t frames[] = {profile_frame(&profile, NO_MODULE, 5),
                               profile_frame(&profile, NO_MODULE, 6),
                               profile_frame(&profile, NO_MODULE, 7)};
    stack_add(frames, 2, 1000);
    stack_add(frames, 3, 7);
    stack_add(frames + 2, 1, 8);
    folded_make("f");
    owed_ns = owed;
    const char *nodes = strstr(places(), "node");
    owed_ns = NULL;
    CHECK_STR(nodes != NULL ? nodes : "", "node - 0 0\n"
                                          "node 0 1 1000 -5\n"
                                          "node 1 2 7\n"
                                          "node - 2 8 -9223372036854775808\n"
                                          "end\n");
    outfile_close(&folded);
    done();
}

TEST(modules_frames_and_tree)
{
    prepare();
    struct module *app = module_add("/bin/an app", 77);
    app->has_elf = true;
    app->elf.build_id_bytes = 3;
    memcpy(app->elf.build_id, "\x01\xab\xf0", 3);
    module_add("/lib/b.so", 78)->has_elf = true;
    module_add("/lib/no elf", 79);
    module_add("/lib/two\nlines", 80)->has_elf = true;
    const uint32_t frames[] = {
        profile_frame(&profile, NO_MODULE, 5), profile_frame(&profile, 0, 0x1234),
        profile_frame(&profile, 1, 0xabcdef0123456789), profile_frame(&profile, 2, 0)};
    stack_add(frames, 2, 1000);
    stack_add(frames, 4, 18446744073709551000u);
    folded_make("f");
    CHECK_STR(places(), "selfsample places 1\n"
                        "folded 14\n"
                        "unit_ns 1001001\n"
                        "module 77 01abf0 /bin/an app\n"
                        "module 78 - /lib/b.so\n"
                        "module 79 - \n"
                        "module 80 - \n"
                        "frame - 5 thread\n"
                        "frame 0 1234 main\n"
                        "frame 1 abcdef0123456789 f(int: char)\n"
                        "frame 2 0 \n"
                        "node - 0 0\n"
                        "node 0 1 1000\n"
                        "node 1 2 0\n"
                        "node 2 3 18446744073709551000\n"
                        "end\n");
    outfile_close(&folded);
    done();
}

TEST(the_next_writing_replaces_it)
{
    prepare();
    folded_make("f");
    const uint32_t frame = profile_frame(&profile, NO_MODULE, 0);
    stack_add(&frame, 1, 1);
    CHECK(strstr(places(), "node - 0 1\n") != NULL);
    stack_add(&frame, 1, 1);
    CHECK(strstr(places(), "node - 0 2\n") != NULL);
    outfile_close(&folded);
    done();
}

TEST(it_follows_the_name_of_the_folded_file)
{
    prepare();
    folded_make("g");
    REQUIRE(places_begin(&out, &folded) == 0 && outfile_commit(&out) == 0);
    outfile_close(&folded);
    folded_make("f");
    places();
    CHECK_I64(faccessat(directory_fd, "g.places", F_OK, 0), 0);
    outfile_close(&folded);
    done();
}

TEST(a_file_of_that_name_is_left_alone)
{
    prepare();
    folded_make("f");
    close(openat(directory_fd, "f.places", O_WRONLY | O_CREAT, 0600));
    CHECK_I64(places_begin(&out, &folded), -EEXIST);
    REQUIRE(symlinkat("/nowhere", directory_fd, "g.places") == 0);
    outfile_close(&folded);
    folded_make("g");
    CHECK_I64(places_begin(&out, &folded), -EEXIST);
    outfile_close(&folded);
    done();
}

TEST(one_that_was_never_begun)
{
    static struct outfile never; /* descriptor 0 is not its own */
    int null = open("/dev/null", O_RDONLY);
    REQUIRE(dup2(null, 0) == 0);
    places_withdraw(&never);
    places_close(&never);
    CHECK(fcntl(0, F_GETFD) >= 0);
    if (null != 0)
        close(null);
}
