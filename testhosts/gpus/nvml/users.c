// SPDX-License-Identifier: Apache-2.0
/* The functions for the memory errors of a card and for its processes. */
#include <stdio.h>
#include <string.h>

#include "answer.h"

/* Type 0 is corrected, 1 uncorrected. Counter 0 counts since the driver was loaded, 1 over the card's life. */
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int type, unsigned int counter, unsigned long long *errors)
{
	long long enabled, number;

	ENTER(device);
	if (type > 1 || counter > 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (scenario_number(device, "ecc", 0, &enabled) || !enabled)
		return NVML_ERROR_NOT_SUPPORTED;
	if (scenario_number(device, "ecc", (int)(2 + 2 * counter + type), &number))
		return NVML_ERROR_NOT_SUPPORTED;
	*errors = number;
	return NVML_SUCCESS;
}

/* The pages are invented; only their number matters. */
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned int cause, unsigned int *count, unsigned long long *pages)
{
	long long retired;
	unsigned int room = *count;

	ENTER(device);
	if (cause > 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (scenario_number(device, "retired", (int)cause, &retired))
		return NVML_ERROR_NOT_SUPPORTED;
	*count = (unsigned int)retired;
	if (room < *count || (*count > 0 && !pages))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < *count; i++)
		pages[i] = 0x1000ULL * (i + 1);
	return NVML_SUCCESS;
}

UINT_FUNCTION(nvmlDeviceGetRetiredPagesPendingStatus, "retired", 2)

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending, unsigned int *failed)
{
	unsigned int *const fields[] = { corrected, uncorrected, pending, failed };

	for (int i = 0; i < 4; i++) {
		nvmlReturn_t code = answer_uint(__func__, device, "remapped", i, fields[i]);
		if (code != NVML_SUCCESS)
			return code;
	}
	return NVML_SUCCESS;
}

/* process returns the n-th process of a kind on a device, or 0. */
static int process(nvmlDevice_t device, const char *kind, unsigned int n, nvmlProcessInfo_v2_t *info)
{
	char key[40];
	const char *value;

	snprintf(key, sizeof key, "%s.%u", kind, n);
	value = scenario_value(device, key);
	info->gpuInstanceId = info->computeInstanceId = 0xffffffff;
	return value && sscanf(value, "%u %llu", &info->pid, &info->usedGpuMemory) == 2;
}

/* list returns all processes of a kind if the buffer is large enough. */
static nvmlReturn_t list(const char *function, nvmlDevice_t device, const char *kind, unsigned int *count, nvmlProcessInfo_v2_t *infos)
{
	nvmlProcessInfo_v2_t each;
	unsigned int room = *count, n;
	nvmlReturn_t code = scenario_enter(function, device);

	if (code != NVML_SUCCESS)
		return code;
	for (n = 0; process(device, kind, n, &each); n++)
		if (n < room)
			infos[n] = each;
	*count = n;
	return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define LIST_FUNCTION(name, kind) \
	nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos) { return list(__func__, device, kind, count, infos); }

LIST_FUNCTION(nvmlDeviceGetComputeRunningProcesses_v2, "compute")
LIST_FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3, "compute")
LIST_FUNCTION(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")
LIST_FUNCTION(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")
LIST_FUNCTION(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps")
LIST_FUNCTION(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps")

/* The structures of the first version are shorter. */
static nvmlReturn_t list_v1(const char *function, nvmlDevice_t device, const char *kind, unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
	nvmlProcessInfo_v2_t found[64];
	unsigned int room = *count;
	nvmlReturn_t code;

	*count = sizeof found / sizeof *found;
	code = list(function, device, kind, count, found);
	if (code == NVML_SUCCESS && *count > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; code == NVML_SUCCESS && i < *count; i++)
		infos[i] = (nvmlProcessInfo_v1_t){ found[i].pid, found[i].usedGpuMemory };
	return code;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
	return list_v1(__func__, device, "compute", count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
	return list_v1(__func__, device, "graphics", count, infos);
}
