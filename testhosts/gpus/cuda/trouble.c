// SPDX-License-Identifier: Apache-2.0
#include "trouble.h"

#include <unistd.h>

int trouble_enter(const char *function, nvmlDevice_t card)
{
	if (trouble(function, card, "hang"))
		for (;;)
			pause();
	if (trouble(function, card, "crash"))
		*(volatile int *)0 = 0;
	if (trouble(function, card, "slow"))
		usleep(100000);
	return scenario_trouble(function, card);
}
