// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include <string.h>

nvmlReturn_t answer_string(const char *text, char *buffer, unsigned int length)
{
	if (!text)
		return NVML_ERROR_NOT_SUPPORTED;
	if (strlen(text) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(buffer, text);
	return NVML_SUCCESS;
}

nvmlReturn_t answer_uint(const char *function, nvmlDevice_t device, const char *key, int n, unsigned int *value)
{
	long long number;
	nvmlReturn_t code = scenario_enter(function, device);

	if (code == NVML_SUCCESS)
		code = scenario_number(device, key, n, &number);
	if (code == NVML_SUCCESS)
		*value = (unsigned int)number;
	return code;
}
