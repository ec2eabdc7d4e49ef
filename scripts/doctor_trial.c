/*
 * A trial: a shell that counts for a tenth of a second, run under the library as any program is.
 * What its helper reports is what a profile on this machine would be like.
 */
#include "command.h"
#include "doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNTING "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"

/* What is set for the user's programs shall not spoil the trial. */
static void environment_set(const char *directory)
{
    static const char *const left_out[] = {"ONLY", "CHILDREN", "ENABLED", "SECCOMP", "KERNEL",
                                           "RATE", "STACK",    "INLINE",  "SUMMARY", "CHECKPOINT"};
    char name[64], out[PATH_MAX + 16];
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++) {
        snprintf(name, sizeof name, "SELFSAMPLE_%s", left_out[i]);
        unsetenv(name);
    }
    snprintf(out, sizeof out, "%s/trial", directory);
    setenv("SELFSAMPLE_OUT", out, 1);
}

static void judge(const struct report *report)
{
    double whole = report->whole + report->truncated != 0
                       ? 100.0 * (double)report->whole / (double)(report->whole + report->truncated)
                       : 0;
    bool no_libunwind = strstr(report->engine, "without libunwind") != NULL;
    if (report->error != NULL) {
        finding(HEALTH_NO, "trial", NULL, "%s", report->error);
        return;
    }
    if (report->samples == 0) {
        finding(HEALTH_NO, "trial", NULL, "the library ran, but there was no sample");
        return;
    }
    finding(strcmp(report->engine, "perf") == 0 ? HEALTH_OK : HEALTH_LIMITED, "trial",
            no_libunwind ? "sudo apt install libunwind8 (or what this system calls it)" : NULL,
            "%llu stacks of sh; engine: %s; stacks whole: %.1f %%",
            (unsigned long long)report->samples, report->engine, whole);
}

void trial_examine(void)
{
    static struct reports reports;
    char word_sh[] = "sh", word_c[] = "-c", counting[] = COUNTING;
    char *arguments[] = {word_sh, word_c, counting, NULL};
    int exit_status;
    fflush(stdout);
    if (library_preload() != 0) {
        finding(HEALTH_NO, "trial", NULL, "there is no library");
        return;
    }
    if (reports_open(&reports) != 0) {
        finding(HEALTH_NO, "trial", "TMPDIR=/a/directory", "the command has no place for its FIFO");
        return;
    }
    environment_set(reports.directory);
    if (program_run(arguments, &reports, &exit_status) >= 0)
        reports_wait(&reports);
    if (reports.count == 0)
        finding(HEALTH_NO, "trial", NULL, "sh did not load the library: %s",
                library_absence_reason("sh"));
    else
        judge(&reports.list[0]);
    for (size_t i = 0; i < reports.count; i++)
        if (reports.list[i].file != NULL)
            unlink(reports.list[i].file);
    reports_close(&reports);
}
