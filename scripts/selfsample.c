/*
 * selfsample [options] [--] program [arguments]: runs the program with the library preloaded, waits
 * for the last helper of its process tree, tells in a few lines what was seen and where it lies,
 * and ends as the program ended. It adds nothing to stdin and stdout and is in no pipe between
 * them.
 *
 * selfsample snapshot|pause|resume PID|PROGRAM: speaks with the helper of a process that runs
 * already. selfsample inline FILE...: puts inlined functions into files that were written before.
 * selfsample top|tree|merge|diff|convert|flamegraph ... FILE...: shows files that were written.
 * selfsample list, live PID: shows processes that are being profiled.
 */
#include <stdarg.h>
#include <stdio.h>

#include "command.h"

char *terminal_clean(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c != 0; c++)
        if (*c < ' ' || *c == 0x7f)
            *c = '?';
    return text;
}

void tell(const char *format, ...)
{
    char line[PATH_MAX + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "selfsample: %s\n", terminal_clean(line));
}

int main(int argc, char **argv)
{
    static struct reports reports;
    control_apply(argc, argv);
    inline_apply(argc, argv);
    views_apply(argc, argv);
    struct after_run after = {0};
    char **program = argv + options_apply(argc, argv, &after);
    int exit_status = STATUS_USAGE;

    after_judge(&after);
    if (library_preload() != 0 || reports_open(&reports) != 0) {
        tell("the program was not run");
        return STATUS_USAGE;
    }
    int status = program_run(program, &reports, &exit_status);
    if (status < 0) {
        reports_close(&reports);
        return exit_status;
    }
    reports_wait(&reports);
    inline_reports(&reports);
    summary_tell(&reports, program[0], !after_makes_page(&after));
    after_do(&after, &reports, program[0]);
    reports_close(&reports);
    program_end_like(status);
}
