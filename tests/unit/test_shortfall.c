/* Lines about what a profile lacks. */
#include "check.h"

#include "shortfall.h"

static struct session session;
static struct perf_map map;

static const char *all(void)
{
    static char lines[1024];
    struct text text = text_over(lines, sizeof lines);
    shortfall_put_labels(&text, &session.labels);
    shortfall_put_signals(&text, &session);
    shortfall_put_code_names(&text, &map);
    return lines;
}

TEST(nothing_is_said_where_nothing_is_lacking)
{
    CHECK_STR(all(), "");
    session.timers.has_no_signal = true; /* perf needs none */
    CHECK_STR(all(), "");
}

TEST(each_lack_has_a_line_of_its_own)
{
    session.labels.refused = 1;
    session.labels.missed = 7;
    session.traits.by_timer = session.timers.has_no_signal = true;
    memcpy(map.path, "/tmp/x.map", sizeof "/tmp/x.map");
    map.refusal = "is too long";
    CHECK_STR(all(),
              "selfsample: more than 1024 different labels: those beyond are [other labels]\n"
              "selfsample: 7 changes of labels came too fast to be taken: some samples may be "
              "under the label before or after\n"
              "selfsample: the program handles all signals that timers could send; from then on "
              "nothing was sampled\n"
              "selfsample: /tmp/x.map: is too long; code that it should name is shown as [jit]");
}
