/*
 * For a library that is to be loaded by older glibcs than that which it is built with (make
 * PORTABLE=1, which has compilers read this first): functions that glibc 2.34 took over from libdl
 * and libpthread by the version that they have always had.
 */
#ifndef SELFSAMPLE_PRELOAD_OLD_GLIBC_H
#define SELFSAMPLE_PRELOAD_OLD_GLIBC_H

#include "../core/arch.h"

#define OLD_GLIBC_VERSION(name) __asm__(".symver " name "," name "@" ARCH_FIRST_GLIBC)

OLD_GLIBC_VERSION("dladdr");
OLD_GLIBC_VERSION("dlopen");
OLD_GLIBC_VERSION("dlsym");
OLD_GLIBC_VERSION("pthread_key_create");
OLD_GLIBC_VERSION("pthread_key_delete");
OLD_GLIBC_VERSION("pthread_setspecific");

#endif
