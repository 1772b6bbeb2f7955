// SPDX-License-Identifier: Apache-2.0
/*
 * The troubles of functions on a card, for the stand-ins of CUDA and NCCL. The scenario has them as
 * "trouble.FUNCTION WORD" of the card, in addition to hang, crash and fail.FUNCTION, which NVML has too.
 */
#ifndef TROUBLE_H
#define TROUBLE_H

#include <stdio.h>
#include <string.h>

#include "../nvml/scenario.h"

/* Returns whether the card has this trouble for the function. */
static inline int trouble(const char *function, nvmlDevice_t card, const char *word)
{
	char key[160];
	snprintf(key, sizeof key, "trouble.%s", function);
	const char *value = scenario_value(card, key);
	return value && strcmp(value, word) == 0;
}

/* Hangs, crashes or waits if the card has this trouble. Returns the error code of the function, or 0. */
int trouble_enter(const char *function, nvmlDevice_t card);

#endif
