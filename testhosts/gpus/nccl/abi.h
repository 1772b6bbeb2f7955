// SPDX-License-Identifier: Apache-2.0
/*
 * The binary interface of NCCL, as in nccl.h of 2.21, as far as the stand-in implements it.
 */
#ifndef NCCL_ABI_H
#define NCCL_ABI_H

#include <stddef.h>

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
} ncclResult_t;

typedef enum { ncclSum = 0 } ncclRedOp_t;
typedef enum { ncclFloat32 = 7 } ncclDataType_t;

typedef struct {
	char internal[128];
} ncclUniqueId;

typedef struct {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;
} ncclConfig_t; /* and more fields, which are not used */

typedef struct ncclComm *ncclComm_t;
typedef void *cudaStream_t;

/* The maximum length of the text of ncclGetLastError. */
#define LAST_ERROR 1024
extern char last_error[LAST_ERROR];

/* complain stores an error and prints it as NCCL_DEBUG=WARN does. */
__attribute__((format(printf, 2, 3))) ncclResult_t complain(ncclResult_t result, const char *format, ...);

#endif
