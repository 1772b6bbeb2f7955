// SPDX-License-Identifier: Apache-2.0
// OLD and OLD_NAMED bind a function to the first version of its architecture: they
// define the wrapper for --wrap=name, which calls old@OLDEST.

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#endif

#define OLD_NAMED(ret, name, old, params, args)              \
	extern ret oldest_##name params;                     \
	__asm__(".symver oldest_" #name "," old "@" OLDEST); \
	ret __wrap_##name params { return oldest_##name args; }

#define OLD(ret, name, params, args) OLD_NAMED(ret, name, #name, params, args)
