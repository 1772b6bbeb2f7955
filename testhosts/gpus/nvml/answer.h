// SPDX-License-Identifier: Apache-2.0
/*
 * The shapes that most of NVML's functions have: a number of a device, or a
 * string into a buffer of the caller's.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include "scenario.h"

/* Copies a string, or says why not. A NULL text is what is not supported. */
nvmlReturn_t answer_string(const char *text, char *buffer, unsigned int length);

/* The n-th field of a key, as the function of that name gives it. */
nvmlReturn_t answer_uint(const char *function, nvmlDevice_t device, const char *key, int n, unsigned int *value);

/* Functions that are nothing but that. */
#define STRING_FUNCTION(name, key) \
	nvmlReturn_t name(nvmlDevice_t device, char *buffer, unsigned int length) \
	{ \
		ENTER(device); \
		return answer_string(scenario_value(device, key), buffer, length); \
	}

#define UINT_FUNCTION(name, key, n) \
	nvmlReturn_t name(nvmlDevice_t device, unsigned int *value) { return answer_uint(__func__, device, key, n, value); }

#define PAIR_FUNCTION(name, key) \
	nvmlReturn_t name(nvmlDevice_t device, unsigned int *first, unsigned int *second) \
	{ \
		nvmlReturn_t code = answer_uint(__func__, device, key, 0, first); \
		return code == NVML_SUCCESS ? answer_uint(__func__, device, key, 1, second) : code; \
	}

#endif
