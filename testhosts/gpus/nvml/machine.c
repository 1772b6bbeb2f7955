// SPDX-License-Identifier: Apache-2.0
/* The functions for the machine: start, end, versions, handles. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"

nvmlReturn_t nvmlInit_v2(void)
{
	nvmlReturn_t trouble;
	long long code = 0;

	if (scenario_users == 0 && !scenario_read())
		return NVML_ERROR_UNKNOWN;
	trouble = scenario_trouble(__func__, MACHINE);
	if (trouble != NVML_SUCCESS)
		return trouble;
	scenario_number(MACHINE, "init", 0, &code);
	if (code == NVML_SUCCESS)
		scenario_users++;
	return (nvmlReturn_t)code;
}

nvmlReturn_t nvmlShutdown(void)
{
	ENTER(MACHINE);
	scenario_users--;
	return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code)
{
	static const char *const words[] = {
		"Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized",
		"Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
		"Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
		"GPU requires reset", "GPU access blocked by the operating system", "Driver/library version mismatch",
		"In use by another client", "Insufficient Memory", "No data", [23] = "Insufficient Resources",
	};
	return (size_t)code < sizeof words / sizeof *words && words[code] ? words[code] : "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	ENTER(MACHINE);
	return answer_string(scenario_value(MACHINE, "driver"), version, length);
}

/*
 * The version of NVML: the major version of CUDA, then the version of the driver. It is
 * available before the library is started, and even if the start has failed.
 */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	char own[80];
	nvmlReturn_t trouble;
	long long cuda = 0;

	if (scenario_users == 0 && !scenario_read())
		return NVML_ERROR_UNKNOWN;
	trouble = scenario_trouble(__func__, MACHINE);
	if (trouble != NVML_SUCCESS)
		return trouble;
	scenario_number(MACHINE, "cuda", 0, &cuda);
	snprintf(own, sizeof own, "%lld.%s", cuda, scenario_value(MACHINE, "driver"));
	return answer_string(own, version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	int major, minor;
	const char *cuda = scenario_value(MACHINE, "cuda");

	ENTER(MACHINE);
	if (!cuda || sscanf(cuda, "%d.%d", &major, &minor) != 2)
		return NVML_ERROR_NOT_SUPPORTED;
	*version = 1000 * major + 10 * minor;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	ENTER(MACHINE);
	for (*count = 0; scenario_device(MACHINE, (int)*count); ++*count)
		;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	nvmlDevice_t card = scenario_device(MACHINE, (int)index);

	ENTER(card);
	if (card == MACHINE) /* no card */
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = card;
	return NVML_SUCCESS;
}
