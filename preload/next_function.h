/*
 * Finds the function that stands behind one of ours: what dlsym(RTLD_NEXT) gives, without a call
 * into libc's linker, which would forget the error that the program may be about to ask for
 * (dlerror), wait for whoever is loading a library, or be a dlsym of the program's own.
 */
#ifndef SELFSAMPLE_PRELOAD_NEXT_FUNCTION_H
#define SELFSAMPLE_PRELOAD_NEXT_FUNCTION_H

/* The function NAME, in its default version, of the first library behind ours that has it; NULL:
 * none has. May be called before the constructor, in a signal handler, in any thread. */
void *next_function(const char *name);

#endif
