/* descriptors: under limits of this process's own. */
#include "descriptors.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

TEST(the_last_ones_are_spare)
{
    struct rlimit before, limit;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    limit = before;
    limit.rlim_cur = 8;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(!descriptor_is_spare(0));
    CHECK(!descriptor_is_spare(7 - DESCRIPTORS_SPARE));
    CHECK(descriptor_is_spare(8 - DESCRIPTORS_SPARE));
    CHECK(descriptor_is_spare(7));
    CHECK(descriptor_is_for_files(0)); /* where there are few, no event has one */
    limit.rlim_cur = 64;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(!descriptor_is_for_files(63 - DESCRIPTORS_SPARE - DESCRIPTORS_FOR_FILES));
    CHECK(descriptor_is_for_files(64 - DESCRIPTORS_SPARE - DESCRIPTORS_FOR_FILES));
    limit.rlim_cur = 1;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(descriptor_is_spare(0));
    setrlimit(RLIMIT_NOFILE, &before);
}

TEST(an_offer_has_its_number_and_nobody_elses_rights)
{
    char link[64] = "";
    struct stat status;
    int kept = dup(0), next;
    REQUIRE(kept > 0);
    for (int round = 0; round < 2; round++) { /* taken before, then free */
        CHECK_I64(descriptor_offer("an-offer", 0), 0);
        CHECK(readlink("/proc/self/fd/0", link, sizeof link - 1) > 0);
        CHECK(strncmp(link, "/memfd:an-offer", strlen("/memfd:an-offer")) == 0);
        CHECK(fstat(0, &status) == 0 && (status.st_mode & 0777) == 0600 && status.st_size == 0);
        next = dup(0);
        CHECK_I64(next, kept + 1); /* nothing else is left open */
        close(next);
        close(0);
    }
    dup2(kept, 0);
    close(kept);
}
