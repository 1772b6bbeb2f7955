// SPDX-License-Identifier: Apache-2.0
/* The functions for one card: its properties, state and users. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

STRING_FUNCTION(nvmlDeviceGetName, "name")
STRING_FUNCTION(nvmlDeviceGetUUID, "uuid")
STRING_FUNCTION(nvmlDeviceGetSerial, "serial")
STRING_FUNCTION(nvmlDeviceGetVbiosVersion, "vbios")

UINT_FUNCTION(nvmlDeviceGetMinorNumber, "minor", 0)
UINT_FUNCTION(nvmlDeviceGetCurrPcieLinkGeneration, "link", 0)
UINT_FUNCTION(nvmlDeviceGetMaxPcieLinkGeneration, "link", 1)
UINT_FUNCTION(nvmlDeviceGetCurrPcieLinkWidth, "link", 2)
UINT_FUNCTION(nvmlDeviceGetMaxPcieLinkWidth, "link", 3)
UINT_FUNCTION(nvmlDeviceGetPcieReplayCounter, "link", 4)
UINT_FUNCTION(nvmlDeviceGetPowerUsage, "power", 0)
UINT_FUNCTION(nvmlDeviceGetEnforcedPowerLimit, "power", 1)
UINT_FUNCTION(nvmlDeviceGetPowerManagementLimit, "power", 1)
UINT_FUNCTION(nvmlDeviceGetPowerManagementDefaultLimit, "power", 2)
UINT_FUNCTION(nvmlDeviceGetPersistenceMode, "persistence", 0)
UINT_FUNCTION(nvmlDeviceGetComputeMode, "compute-mode", 0)

PAIR_FUNCTION(nvmlDeviceGetCudaComputeCapability, "capability")
PAIR_FUNCTION(nvmlDeviceGetMigMode, "mig-mode")
PAIR_FUNCTION(nvmlDeviceGetEccMode, "ecc")

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	unsigned int function;
	const char *value = scenario_value(device, "pci");

	ENTER(device);
	memset(pci, 0, sizeof *pci);
	if (!value || sscanf(value, "%x:%x:%x.%x %x", &pci->domain, &pci->bus, &pci->device, &function, &pci->pciDeviceId) != 5)
		return NVML_ERROR_NOT_SUPPORTED;
	snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.%X", pci->domain, pci->bus, pci->device, function);
	snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.%X", pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff, function & 0xf);
	return NVML_SUCCESS;
}

/* set_bits fills a mask from a kernel list such as "0-3,8". */
static void set_bits(const char *list, unsigned long *mask, unsigned int words)
{
	const unsigned long bits = 8 * sizeof *mask;

	for (char *end; *list; list = *end ? end + 1 : end) {
		unsigned long first = strtoul(list, &end, 10), last = first;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < words * bits; first++)
			mask[first / bits] |= 1UL << first % bits;
	}
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *mask)
{
	const char *list = scenario_value(device, "cpus");

	ENTER(device);
	if (!list)
		return NVML_ERROR_NOT_SUPPORTED;
	memset(mask, 0, words * sizeof *mask);
	set_bits(list, mask, words);
	return NVML_SUCCESS;
}

/* One NUMA node is near the card. Scope 0 is nodes; other scopes are not supported. */
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long *mask, unsigned int scope)
{
	const char *node = scenario_value(device, "numa");

	ENTER(device);
	if (!node || scope != 0)
		return NVML_ERROR_NOT_SUPPORTED;
	memset(mask, 0, words * sizeof *mask);
	set_bits(node, mask, words);
	return NVML_SUCCESS;
}

/* The NUMA node of the card's own memory. No machine here has one. */
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
	ENTER(device);
	*node = 0;
	return NVML_ERROR_NOT_SUPPORTED;
}

/* Only the first version counts reserved memory as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	long long total, reserved, used;

	ENTER(device);
	if (scenario_number(device, "memory", 0, &total) || scenario_number(device, "memory", 1, &reserved) || scenario_number(device, "memory", 2, &used))
		return NVML_ERROR_NOT_SUPPORTED;
	*memory = (nvmlMemory_t){ .total = total, .used = reserved + used, .free = total - reserved - used };
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	long long total, reserved, used;

	ENTER(device);
	if (memory->version != STRUCT_VERSION(sizeof *memory, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (scenario_number(device, "memory", 0, &total) || scenario_number(device, "memory", 1, &reserved) || scenario_number(device, "memory", 2, &used))
		return NVML_ERROR_NOT_SUPPORTED;
	*memory = (nvmlMemory_v2_t){
		.version = memory->version, .total = total, .reserved = reserved, .used = used, .free = total - reserved - used,
	};
	return NVML_SUCCESS;
}

/* Clock domains are 0 graphics, 1 SM and 2 memory. */
static int clock_field(unsigned int domain) { return domain == 2 ? 2 : 0; }

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int domain, unsigned int *mhz)
{
	return answer_uint(__func__, device, "clock", clock_field(domain), mhz);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int domain, unsigned int *mhz)
{
	return answer_uint(__func__, device, "clock", clock_field(domain) + 1, mhz);
}

/* If it is not set it is not supported, as on cards that have deprecated it. */
nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned int domain, unsigned int *mhz)
{
	nvmlReturn_t code = answer_uint(__func__, device, "clock", domain == 2 ? 2 : 4, mhz);
	return code == NVML_SUCCESS && *mhz == 0 ? NVML_ERROR_NOT_SUPPORTED : code;
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, unsigned int domain, unsigned int *mhz)
{
	return nvmlDeviceGetMaxClockInfo(device, domain, mhz);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *least, unsigned int *most)
{
	nvmlReturn_t code = answer_uint(__func__, device, "power", 3, least);
	return code == NVML_SUCCESS ? answer_uint(__func__, device, "power", 4, most) : code;
}

/* Sensor 0 is the only one. */
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *celsius)
{
	if (sensor != 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	return answer_uint(__func__, device, "temperature", 0, celsius);
}

/* Threshold 1 is the temperature at which the card slows down; others are not supported. */
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int threshold, unsigned int *celsius)
{
	if (threshold != 1)
		return NVML_ERROR_NOT_SUPPORTED;
	return answer_uint(__func__, device, "temperature", 1, celsius);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
	unsigned int mask;
	nvmlReturn_t code = answer_uint(__func__, device, "throttle", 0, &mask);
	*reasons = code == NVML_SUCCESS ? mask : 0;
	return code;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
	unsigned int mask;
	nvmlReturn_t code = answer_uint(__func__, device, "throttle", 0, &mask);
	*reasons = code == NVML_SUCCESS ? mask : 0;
	return code;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
	nvmlReturn_t code = answer_uint(__func__, device, "utilization", 0, &rates->gpu);
	return code == NVML_SUCCESS ? answer_uint(__func__, device, "utilization", 1, &rates->memory) : code;
}
