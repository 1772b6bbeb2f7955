// SPDX-License-Identifier: Apache-2.0
/*
 * What the scenario has in store for a function and a card, for the stand-ins that are not
 * NVML's: "trouble.FUNCTION WORD" of the card, beside the hang, crash and fail.FUNCTION of all.
 */
#ifndef TROUBLE_H
#define TROUBLE_H

#include <stdio.h>
#include <string.h>

#include "../nvml/scenario.h"

/* Whether the card has that word for the function. */
static inline int trouble(const char *function, nvmlDevice_t card, const char *word)
{
	char key[160];
	snprintf(key, sizeof key, "trouble.%s", function);
	const char *value = scenario_value(card, key);
	return value && strcmp(value, word) == 0;
}

/* Hangs, crashes or is slow where the card has that; returns the code that it fails with, 0 for none. */
int trouble_enter(const char *function, nvmlDevice_t card);

#endif
