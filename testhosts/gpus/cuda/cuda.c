// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for the CUDA driver. It has the cards of the scenario, and their memory is that of
 * the host. It does everything at once. It has one kernel, which it recognises by its name: every
 * word goes through a number of steps x = times x + plus. The kernel takes a tenth of a second and
 * mostly sleeps, so that all cards are equally fast on a busy machine and use little of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trouble.h"
#include "abi.h"

static int started;
static __thread nvmlDevice_t current;

#define ENTER_CARD(card) \
	do { \
		int code = started ? trouble_enter(__func__, card) : CUDA_ERROR_NOT_INITIALIZED; \
		if (code != CUDA_SUCCESS) \
			return (CUresult)code; \
	} while (0)

#define ENTER_CURRENT \
	do { \
		if (!current) \
			return CUDA_ERROR_INVALID_CONTEXT; \
		ENTER_CARD(current); \
	} while (0)

/* visible returns the n-th card of CUDA_VISIBLE_DEVICES. */
static nvmlDevice_t visible(int n)
{
	const char *shown = getenv("CUDA_VISIBLE_DEVICES");

	if (!shown)
		return scenario_device(MACHINE, n);
	while (*shown && n-- > 0) {
		shown += strcspn(shown, ",");
		shown += *shown == ',';
	}
	return *shown ? scenario_device(MACHINE, atoi(shown)) : NULL;
}

static long long number(nvmlDevice_t card, const char *key, int n)
{
	long long value = 0;

	scenario_number(card, key, n, &value);
	return value;
}

CUresult cuInit(unsigned int flags)
{
	(void)flags;
	if (!scenario_read())
		return CUDA_ERROR_NO_DEVICE;
	switch (number(MACHINE, "init", 0)) {
	case NVML_SUCCESS:
		break;
	case 9: /* NVML_ERROR_DRIVER_NOT_LOADED */
		return CUDA_ERROR_NO_DEVICE;
	case 18: /* NVML_ERROR_LIB_RM_VERSION_MISMATCH */
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	default:
		return CUDA_ERROR_UNKNOWN;
	}
	started = 1;
	ENTER_CARD(MACHINE);
	return visible(0) ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

static const struct {
	int code;
	const char *name, *text;
} errors[] = {
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	{CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	{CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
	{CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
	{CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult describe(int code, const char **name, const char **text)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code) {
			*name = errors[i].name;
			*text = errors[i].text;
			return CUDA_SUCCESS;
		}
	*name = *text = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
	const char *text;
	return describe(code, name, &text);
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
	const char *name;
	return describe(code, &name, text);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	ENTER_CARD(visible(ordinal));
	*device = ordinal;
	return visible(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	ENTER_CARD(visible(device));
	snprintf(name, (size_t)size, "%s", scenario_value(visible(device), "name"));
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *address, int size, CUdevice device)
{
	unsigned int domain, bus, slot;

	ENTER_CARD(visible(device));
	sscanf(scenario_value(visible(device), "pci"), "%x:%x:%x", &domain, &bus, &slot);
	snprintf(address, (size_t)size, "%04X:%02X:%02X.0", domain, bus, slot);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	ENTER_CARD(visible(device));
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
		*value = (int)number(visible(device), "compute-mode", 0);
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
		*value = trouble(__func__, visible(device), "mps");
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	nvmlDevice_t card = visible(device);
	long long mode = number(card, "compute-mode", 0);

	ENTER_CARD(card);
	if (mode == 2 || (mode == 3 && scenario_value(card, "compute.0")))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	*context = card;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	ENTER_CARD(context);
	current = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	for (*device = 0; visible(*device) != current; ++*device)
		;
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	ENTER_CURRENT;
	*total = (size_t)number(current, "memory", 0);
	*available = *total - (size_t)(number(current, "memory", 1) + number(current, "memory", 2));
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t size)
{
	ENTER_CURRENT;
	void *there = malloc(size);
	*memory = (CUdeviceptr)there;
	return there ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr memory)
{
	ENTER_CURRENT;
	free((void *)memory);
	return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **memory, size_t size)
{
	ENTER_CURRENT;
	*memory = malloc(size);
	return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *memory)
{
	ENTER_CURRENT;
	free(memory);
	return CUDA_SUCCESS;
}

/* spoil inverts one bit in the middle if the card has the trouble "wrong" for this function. */
static void spoil(const char *function, void *memory, size_t size)
{
	if (trouble(function, current, "wrong"))
		((unsigned char *)memory)[size / 2] ^= 0x10;
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
	(void)stream;
	ENTER_CURRENT;
	for (size_t i = 0; i < count; i++)
		((unsigned int *)to)[i] = value;
	return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	(void)stream;
	ENTER_CURRENT;
	memcpy((void *)to, from, size);
	spoil(__func__, (void *)to, size);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	(void)stream;
	ENTER_CURRENT;
	memcpy(to, (void *)from, size);
	spoil(__func__, to, size);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	(void)stream;
	ENTER_CURRENT;
	memcpy((void *)to, (void *)from, size);
	spoil(__func__, (void *)to, size);
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	static int only;

	(void)flags;
	ENTER_CURRENT;
	*stream = &only;
	return CUDA_SUCCESS;
}

/* A query of a stream that never ends does not hang. */
CUresult cuStreamQuery(CUstream stream)
{
	(void)stream;
	if (current && trouble(__func__, current, "busy"))
		return CUDA_ERROR_NOT_READY;
	ENTER_CURRENT;
	return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	(void)stream;
	ENTER_CURRENT;
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	ENTER_CURRENT;
	if (!strstr(image, ".version ") || !strstr(image, ".target "))
		return CUDA_ERROR_INVALID_PTX;
	*module = strdup(image);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	char entry[80];

	ENTER_CURRENT;
	snprintf(entry, sizeof entry, ".entry %s(", name);
	if (!strstr(module, entry))
		return CUDA_ERROR_NOT_FOUND;
	*function = strdup(name);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ, unsigned int blockX,
                        unsigned int blockY, unsigned int blockZ, unsigned int shared, CUstream stream, void **parameters, void **extra)
{
	unsigned int times = 1, plus = 0;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	(void)shared, (void)stream, (void)extra;
	ENTER_CURRENT;
	if (strcmp(function, "churn") != 0)
		return CUDA_ERROR_LAUNCH_FAILED;
	unsigned int *words = (unsigned int *)*(CUdeviceptr *)parameters[0];
	size_t count = (size_t)gridX * gridY * gridZ * blockX * blockY * blockZ;
	for (unsigned int n = *(unsigned int *)parameters[1]; n > 0; n--) {
		times *= *(unsigned int *)parameters[2];
		plus = plus * *(unsigned int *)parameters[2] + *(unsigned int *)parameters[3];
	}
	for (size_t i = 0; i < count; i++)
		words[i] = words[i] * times + plus;
	spoil(__func__, words, 4 * count);
	until.tv_nsec += 100 * 1000 * 1000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	return CUDA_SUCCESS;
}
