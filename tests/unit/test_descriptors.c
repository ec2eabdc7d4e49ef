/* descriptors: under limits of this process's own. */
#include "descriptors.h"

#include <sys/resource.h>

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
    limit.rlim_cur = 1;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(descriptor_is_spare(0));
    setrlimit(RLIMIT_NOFILE, &before);
}
