/* `selfsample doctor`: the findings one after the other, and the verdict as exit status. */
#include "command.h"
#include "doctor.h"
#include "views.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static enum health worst;

void finding(enum health health, const char *subject, const char *cure, const char *format, ...)
{
    static const char *const words[] = {"ok", "limited", "no"};
    char text[PATH_MAX + 512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("%-8s %-18s %s\n", words[health], subject, terminal_clean(text));
    if (cure != NULL)
        printf("%-8s %-18s -> %s\n", "", "", cure);
    if (health > worst)
        worst = health;
}

void view_doctor(struct view_options *options, char **command, size_t count)
{
    (void)options;
    machine_examine();
    trial_examine();
    if (count != 0)
        program_examine(command[0]);
    view_stdout_finish();
    exit(worst == HEALTH_NO ? STATUS_FAILED : 0);
}
