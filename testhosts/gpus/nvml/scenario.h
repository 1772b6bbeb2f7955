// SPDX-License-Identifier: Apache-2.0
/*
 * The scenario file: what the stand-in shall say. One "key value" a line; what
 * follows a line "gpu N" is of that card, and what follows "mig N" is of that
 * instance of the card above. Values are fields between blanks.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "abi.h"

/* The machine, a card or a MIG instance: a run of lines. Devices' handles are these. */
struct scope {
	int first, end; /* lines */
	int index;      /* of the card, or of the instance in its card */
	nvmlDevice_t card; /* that an instance is of; NULL for cards and the machine */
};

/* The whole machine's scope. */
#define MACHINE ((nvmlDevice_t)0)

/* Reads the file. 0 when it cannot be read. */
int scenario_read(void);

/* How often NVML was started and not ended. */
extern int scenario_users;

/* The n-th card, or instance of a card; NULL when there is none. */
nvmlDevice_t scenario_device(nvmlDevice_t card, int n);

/* What the scenario says of a key; NULL when it says nothing. */
const char *scenario_value(nvmlDevice_t device, const char *key);

/* The n-th field of a key as a number. NOT_SUPPORTED when there is none. */
nvmlReturn_t scenario_number(nvmlDevice_t device, const char *key, int n, long long *number);

/*
 * Hangs or crashes where the scenario has it for a function and a device, or
 * returns the failure that it has.
 */
nvmlReturn_t scenario_trouble(const char *function, nvmlDevice_t device);

/* That, for the functions that take a started library and a handle of its own. */
nvmlReturn_t scenario_enter(const char *function, nvmlDevice_t device);

#define ENTER(device) \
	do { \
		nvmlReturn_t trouble = scenario_enter(__func__, device); \
		if (trouble != NVML_SUCCESS) \
			return trouble; \
	} while (0)

#endif
