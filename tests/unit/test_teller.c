/* teller: what reaches the user of what was counted. */
#include "teller.h"

#include <string.h>

#include "check.h"

static struct session session;
static struct collector collector;
static struct arena arena;

/* What is left for the app to say at the end of such a session. */
static const char *said(bool summary)
{
    struct teller teller;
    memset(&session, 0, sizeof session);
    collector.arena = &arena;
    session.config.summary = summary;
    session.period_ns = 1000000;
    teller_init(&teller, &session, &collector);
    teller_end(&teller,
               &(struct teller_end){.app_cpu_ns = 1000000000, .error = -ENODATA, .file = ""});
    return session.notice;
}

TEST(what_is_missing_is_told)
{
    collector = (struct collector){.throttled = 23, .lost = 4711};
    collector.threads.uncovered = 17;
    const char *lines = said(true);
    CHECK(strstr(lines, "throttled 23 times") != NULL);
    CHECK(strstr(lines, "4711 lost") != NULL);
    CHECK(strstr(lines, "17 threads not covered") != NULL);
}

TEST(nothing_is_said_that_was_not_asked_for)
{
    collector = (struct collector){.throttled = 23, .lost = 4711};
    CHECK_STR(said(false), "");
}
