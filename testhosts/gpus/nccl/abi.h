// SPDX-License-Identifier: Apache-2.0
/*
 * What NCCL's callers and the library agree on, as in nccl.h of 2.21. Only what the stand-in
 * answers.
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
} ncclConfig_t; /* and more, which is left alone */

typedef struct ncclComm *ncclComm_t;
typedef void *cudaStream_t;

/* The most that ncclGetLastError says. */
#define LAST_ERROR 1024
extern char last_error[LAST_ERROR];

/* complain keeps what went wrong, and prints it as NCCL_DEBUG=WARN would. */
__attribute__((format(printf, 2, 3))) ncclResult_t complain(ncclResult_t result, const char *format, ...);

#endif
