/*
 * What differs between processors, behind one narrow contract. Each architecture has a file
 * arch_NAME.h with exactly these definitions; nothing else in core or preload tests for one.
 */
#ifndef SELFSAMPLE_CORE_ARCH_H
#define SELFSAMPLE_CORE_ARCH_H

#if defined(__x86_64__)
#include "arch_x86_64.h"
#elif defined(__aarch64__) && defined(__AARCH64EL__)
#include "arch_aarch64.h"
#else
#error "selfsample knows x86-64 and AArch64 only"
#endif

#endif
