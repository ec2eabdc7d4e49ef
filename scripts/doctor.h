/*
 * The parts of `selfsample doctor`, which says what this machine, and a program, allow a profile to
 * show, and what gives more. It asks by the library's own means: the probes of core, and a short
 * trial run under the library itself.
 *
 *     command_doctor -> doctor_machine + doctor_trial + doctor_program (findings) -> stdout
 */
#ifndef SELFSAMPLE_SCRIPTS_DOCTOR_H
#define SELFSAMPLE_SCRIPTS_DOCTOR_H

#include <stdbool.h>

/* How well it is: as it can be; with less in the profile; without a profile. */
enum health { HEALTH_OK, HEALTH_LIMITED, HEALTH_NO };

/* Prints one finding, and in a line of its own the CURE, which may be NULL. */
void finding(enum health health, const char *subject, const char *cure, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- doctor_machine.c ---- */
void machine_examine(void);

/* ---- doctor_trial.c: a program of a tenth of a second, run under the library ---- */
void trial_examine(void);

/* ---- doctor_program.c: PROGRAM, looked up in PATH ---- */
void program_examine(const char *program);

#endif
