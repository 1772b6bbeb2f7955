// SPDX-License-Identifier: Apache-2.0
/*
 * The binary interface of NVML: numbers and the layout of structures, as in nvml.h
 * of CUDA 13.0, as far as the stand-in implements it.
 */
#ifndef ABI_H
#define ABI_H

typedef enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct scope *nvmlDevice_t;

typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device;
	unsigned int pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
	unsigned int version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
	unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;

typedef struct {
	unsigned int fieldId, scopeId;
	long long timestamp, latencyUsec;
	unsigned int valueType;
	nvmlReturn_t nvmlReturn;
	union {
		double dVal;
		unsigned int uiVal;
		unsigned long long ullVal;
	} value;
} nvmlFieldValue_t;

typedef struct {
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
} nvmlGpuFabricInfo_t;

/* Version 2 ends before the summary. */
typedef struct {
	unsigned int version;
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
	unsigned int healthMask;
	unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

/* The version field of a structure: its size and, in the top byte, its number. */
#define STRUCT_VERSION(size, number) ((unsigned int)(size) | (number) << 24U)

enum { /* nvmlValueType_t */
	VALUE_TYPE_UNSIGNED_INT = 1,
};

enum { /* nvmlFieldValue_t.fieldId */
	FIELD_NVLINK_SPEED_MBPS_L0 = 84,  /* links 0 to 5 */
	FIELD_NVLINK_SPEED_MBPS_COMMON = 90,
	FIELD_NVLINK_LINK_COUNT = 91,
	FIELD_NVLINK_SPEED_MBPS_L6 = 132, /* links 6 to 11 */
	FIELD_NVLINK_GET_SPEED = 164,
	FIELD_GPU_RECOVERY_ACTION = 230,
};

#endif
