/*
 * selfsample: a CPU profiler that lives inside the program it profiles.
 *
 * Nothing here is needed to be profiled: run the program under `selfsample` or with
 * LD_PRELOAD=libselfsample.so. The header is for programs that want to know what they run under.
 */
#ifndef SELFSAMPLE_H
#define SELFSAMPLE_H

#ifdef __cplusplus
extern "C" {
#endif

#define SELFSAMPLE_VERSION_MAJOR 0
#define SELFSAMPLE_VERSION_MINOR 1
#define SELFSAMPLE_VERSION_PATCH 0

/*
 * The version of the library that is loaded, as "0.1.0". The string is static. Safe in any thread
 * and in signal handlers. Not there when the program runs without the library: link with it, or
 * look it up with dlsym(RTLD_DEFAULT, "selfsample_version").
 */
const char *selfsample_version(void);

#ifdef __cplusplus
}
#endif

#endif
