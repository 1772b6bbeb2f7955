// SPDX-License-Identifier: Apache-2.0
/*
 * The scenario file contains the answers of the stand-in, one "key value" per line. The
 * lines after "gpu N" belong to this card, the lines after "mig N" to this instance of
 * the card above. A value consists of fields separated by blanks.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "abi.h"

/* The machine, a card or a MIG instance: a range of lines. Device handles point to it. */
struct scope {
	int first, end; /* lines */
	int index;      /* of the card, or of the instance in its card */
	nvmlDevice_t card; /* the card of an instance; NULL for cards and the machine */
};

/* The scope of the machine. */
#define MACHINE ((nvmlDevice_t)0)

/* Reads the file. Returns 0 if it cannot be read. */
int scenario_read(void);

/* How often NVML was started minus how often it was ended. */
extern int scenario_users;

/* Returns the n-th card, or instance of a card; NULL if there is none. */
nvmlDevice_t scenario_device(nvmlDevice_t card, int n);

/* Returns the value of a key; NULL if there is none. */
const char *scenario_value(nvmlDevice_t device, const char *key);

/* Returns the n-th field of a key as a number; NOT_SUPPORTED if there is none. */
nvmlReturn_t scenario_number(nvmlDevice_t device, const char *key, int n, long long *number);

/*
 * Hangs or crashes if the scenario says so for this function and device. Otherwise
 * returns the error code of the scenario.
 */
nvmlReturn_t scenario_trouble(const char *function, nvmlDevice_t device);

/* The same for functions that need a started library and a valid handle. */
nvmlReturn_t scenario_enter(const char *function, nvmlDevice_t device);

#define ENTER(device) \
	do { \
		nvmlReturn_t trouble = scenario_enter(__func__, device); \
		if (trouble != NVML_SUCCESS) \
			return trouble; \
	} while (0)

#endif
