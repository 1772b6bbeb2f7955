// SPDX-License-Identifier: Apache-2.0
/*
 * The two kinds of functions that NVML mostly has: they return a number of a device,
 * or copy a string into a buffer of the caller.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include "scenario.h"

/* Copies a string, or returns an error. NULL means "not supported". */
nvmlReturn_t answer_string(const char *text, char *buffer, unsigned int length);

/* The n-th field of a key, as the function with this name returns it. */
nvmlReturn_t answer_uint(const char *function, nvmlDevice_t device, const char *key, int n, unsigned int *value);

/* Defines a function that only does this. */
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
