// SPDX-License-Identifier: Apache-2.0
//go:build linux && cgo && (amd64 || arm64)

// These functions of glibc got a new default version after 2.28, and a Go program
// with cgo needs them. Each is bound to the first version of its architecture,
// which every later glibc keeps, with the same behaviour for our calls (glibc, NEWS
// of 2.32 and 2.34: libpthread, libdl and libresolv moved into libc, and a function
// that moves gets a new version).

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "oldest.h"

// 2.34: libdl
OLD(void *, dlopen, (const char *file, int mode), (file, mode))
OLD(void *, dlsym, (void *handle, const char *name), (handle, name))
OLD(int, dlclose, (void *handle), (handle))
OLD(char *, dlerror, (void), ())

// 2.32 and 2.34: libpthread
OLD(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *before), (how, set, before))
OLD(int, pthread_getattr_np, (pthread_t thread, pthread_attr_t *attr), (thread, attr))
OLD(int, pthread_create, (pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg), (thread, attr, start, arg))
OLD(int, pthread_key_create, (pthread_key_t *key, void (*destroy)(void *)), (key, destroy))
OLD(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value))
OLD(int, pthread_attr_getstack, (const pthread_attr_t *attr, void **address, size_t *size), (attr, address, size))
OLD(int, pthread_attr_getstacksize, (const pthread_attr_t *attr, size_t *size), (attr, size))

// 2.34: the start-up code of a program no longer contains the function that runs
// its constructors, because __libc_start_main does that itself. In older glibc,
// __libc_start_main runs the function that it gets as an argument, so we pass one.
typedef void constructor(int, char **, char **);
typedef int start_main(int (*)(int, char **, char **), int, char **, constructor *, void (*)(void), void (*)(void), void *);

extern void _init(void);
extern constructor *__init_array_start[] __attribute__((visibility("hidden")));
extern constructor *__init_array_end[] __attribute__((visibility("hidden")));

static void construct(int argc, char **argv, char **env) {
	_init();
	for (constructor **next = __init_array_start; next < __init_array_end; next++)
		(*next)(argc, argv, env);
}

extern start_main oldest_start_main;
__asm__(".symver oldest_start_main,__libc_start_main@" OLDEST);

int __wrap___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
	constructor *init, void (*fini)(void), void (*rtld_fini)(void), void *stack_end) {
	return oldest_start_main(main, argc, argv, init ? init : construct, fini, rtld_fini, stack_end);
}
