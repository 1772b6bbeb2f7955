// SPDX-License-Identifier: Apache-2.0
/* The functions for the connections of a card to others, and for its own parts. */
#include <stdio.h>
#include <string.h>

#include "answer.h"

/* Fields of a link in the scenario. */
enum { ACTIVE, SPEED, KIND, REPLAYS, RECOVERIES, CRC, REMOTE };

static nvmlReturn_t link_uint(const char *function, nvmlDevice_t device, unsigned int link, int n, unsigned int *value)
{
	char key[32];

	snprintf(key, sizeof key, "nvlink.%u", link);
	return answer_uint(function, device, key, n, value);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *active)
{
	return link_uint(__func__, device, link, ACTIVE, active);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link, unsigned int *kind)
{
	return link_uint(__func__, device, link, KIND, kind);
}

/* Counters are 0 replays, 1 recoveries and 2 CRC errors of flits. */
nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, unsigned int counter, unsigned long long *errors)
{
	unsigned int number;
	nvmlReturn_t code;

	if (counter > 2)
		return NVML_ERROR_NOT_SUPPORTED;
	code = link_uint(__func__, device, link, REPLAYS + (int)counter, &number);
	if (code == NVML_SUCCESS)
		*errors = number;
	return code;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
	char key[32];
	const char *value;
	unsigned int function;

	ENTER(device);
	memset(pci, 0, sizeof *pci);
	snprintf(key, sizeof key, "nvlink.%u", link);
	value = scenario_value(device, key);
	if (!value || sscanf(value, "%*u %*u %*u %*u %*u %*u %x:%x:%x.%x", &pci->domain, &pci->bus, &pci->device, &function) != 4)
		return NVML_ERROR_NOT_SUPPORTED;
	snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.%X", pci->domain, pci->bus, pci->device, function);
	return NVML_SUCCESS;
}

/* common_speed returns the speed of the first active link. */
static nvmlReturn_t common_speed(nvmlDevice_t device, unsigned int *speed)
{
	unsigned int active;

	for (unsigned int link = 0; link_uint(__func__, device, link, ACTIVE, &active) == NVML_SUCCESS; link++)
		if (active)
			return link_uint(__func__, device, link, SPEED, speed);
	return NVML_ERROR_NOT_SUPPORTED;
}

/*
 * The speeds of the first twelve links have their own field numbers. A newer field
 * works for all links, with the link as its scope.
 */
static nvmlReturn_t field(nvmlDevice_t device, unsigned int id, unsigned int scope, unsigned int *value)
{
	if (id == FIELD_NVLINK_GET_SPEED)
		return link_uint(__func__, device, scope, SPEED, value);
	if (id == FIELD_GPU_RECOVERY_ACTION)
		return answer_uint(__func__, device, "recovery", 0, value);
	if (id == FIELD_NVLINK_LINK_COUNT)
		return answer_uint(__func__, device, "nvlinks", 0, value);
	if (id == FIELD_NVLINK_SPEED_MBPS_COMMON)
		return common_speed(device, value);
	if (id >= FIELD_NVLINK_SPEED_MBPS_L0 && id < FIELD_NVLINK_SPEED_MBPS_L0 + 6)
		return link_uint(__func__, device, id - FIELD_NVLINK_SPEED_MBPS_L0, SPEED, value);
	if (id >= FIELD_NVLINK_SPEED_MBPS_L6 && id < FIELD_NVLINK_SPEED_MBPS_L6 + 6)
		return link_uint(__func__, device, 6 + id - FIELD_NVLINK_SPEED_MBPS_L6, SPEED, value);
	return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	ENTER(device);
	for (int i = 0; i < count; i++) {
		values[i].valueType = VALUE_TYPE_UNSIGNED_INT;
		values[i].nvmlReturn = field(device, values[i].fieldId, values[i].scopeId, &values[i].value.uiVal);
	}
	return NVML_SUCCESS;
}

/* pair_uint returns a number that a card has for each other card. */
static nvmlReturn_t pair_uint(const char *function, nvmlDevice_t device, nvmlDevice_t peer, const char *what, unsigned int *value)
{
	char key[32];
	nvmlReturn_t code = scenario_enter(function, peer);

	if (code != NVML_SUCCESS)
		return code;
	snprintf(key, sizeof key, "%s.%d", what, peer->index);
	return answer_uint(function, device, key, 0, value);
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t peer, unsigned int *level)
{
	return pair_uint(__func__, device, peer, "topology", level);
}

/* Index 0 is read and 1 is write, which the scenario does not distinguish; there are others. */
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, unsigned int index, unsigned int *status)
{
	if (index > 1)
		return NVML_ERROR_NOT_SUPPORTED;
	return pair_uint(__func__, device, peer, "p2p", status);
}

/* fabric fills the fields that all versions of the structure have. */
static nvmlReturn_t fabric(const char *function, nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *info)
{
	unsigned int state, status, digit[2];
	char cluster[33];
	const char *value;
	nvmlReturn_t code = scenario_enter(function, device);

	if (code != NVML_SUCCESS)
		return code;
	value = scenario_value(device, "fabric");
	if (!value)
		return NVML_ERROR_NOT_SUPPORTED;
	memset(info, 0, sizeof *info);
	if (sscanf(value, "%u %u %u %u %32s", &state, &status, &info->cliqueId, &info->healthMask, cluster) == 5)
		for (int i = 0; i < 16 && sscanf(cluster + 2 * i, "%1x%1x", &digit[0], &digit[1]) == 2; i++)
			info->clusterUuid[i] = (unsigned char)(digit[0] << 4 | digit[1]);
	info->state = (unsigned char)state;
	info->status = (nvmlReturn_t)status;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
	nvmlGpuFabricInfo_v3_t all;
	nvmlReturn_t code = fabric(__func__, device, &all);

	if (code != NVML_SUCCESS)
		return code;
	memcpy(info->clusterUuid, all.clusterUuid, sizeof info->clusterUuid);
	info->status = all.status;
	info->cliqueId = all.cliqueId;
	info->state = all.state;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *info)
{
	const size_t size_v2 = sizeof *info - sizeof(unsigned int);
	nvmlGpuFabricInfo_v3_t all;
	unsigned int version = info->version;
	nvmlReturn_t code = fabric(__func__, device, &all);

	if (code != NVML_SUCCESS)
		return code;
	all.version = version;
	if (version == STRUCT_VERSION(size_v2, 2))
		memcpy(info, &all, size_v2);
	else if (version == STRUCT_VERSION(sizeof all, 3))
		*info = all;
	else
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	return NVML_SUCCESS;
}

/* A card with MIG has up to seven instances. */
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	ENTER(device);
	*count = scenario_value(device, "mig-mode") ? 7 : 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *instance)
{
	ENTER(device);
	*instance = scenario_device(device, (int)index);
	return *instance ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
