// SPDX-License-Identifier: Apache-2.0
/*
 * What is called of libcuda and libnccl: as much of cuda.h (CUDA 12.4) and of nccl.h (2.14)
 * as that takes, in their names. What stands here has had the same value, layout and
 * parameters in every nccl.h from 2.14 to 2.30; oracle/direct_test.go holds it against the
 * headers themselves, and for that leaves the types out.
 *
 * Neither library is linked. Each function is a pointer that find_symbols fills, and is called
 * by its own name; what an old library may lack is asked for first.
 */
#ifndef LIBRARIES_H
#define LIBRARIES_H

#include <stddef.h>

#ifndef TYPES_ARE_THEIRS

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;

typedef enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
	CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
	CUDA_ERROR_NOT_READY = 600,
} CUresult;

typedef enum {
	CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
	CU_DEVICE_ATTRIBUTE_MPS_ENABLED = 133, /* without a name in the headers of 12.1, with one in those of 12.4 */
} CUdevice_attribute;

typedef enum {
	CU_COMPUTEMODE_DEFAULT = 0,
	CU_COMPUTEMODE_PROHIBITED = 2,
	CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
} CUcomputemode;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef struct ncclComm *ncclComm_t;

typedef enum {
	ncclSuccess = 0,
	ncclInProgress = 7,
} ncclResult_t;

typedef enum {
	ncclSum = 0,
} ncclRedOp_t;

typedef enum {
	ncclFloat32 = 7,
} ncclDataType_t;

#define NCCL_API_MAGIC 0xcafebeef

/*
 * The configuration as it was in 2.14. Later releases copy as much of it as its own size says,
 * and take defaults for what its version had not (parseCommConfig of src/init.cc, from 2.17 on;
 * until then it had nothing else).
 */
typedef struct {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;
} ncclConfig_t;

#endif

/* F(result, name, (parameters), (arguments)) of each. Without these nothing can be tried. */
#define CUDA_FUNCTIONS(F) \
	F(CUresult, cuInit, (unsigned int flags), (flags)) \
	F(CUresult, cuGetErrorName, (CUresult code, const char **name), (code, name)) \
	F(CUresult, cuGetErrorString, (CUresult code, const char **text), (code, text)) \
	F(CUresult, cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal)) \
	F(CUresult, cuDeviceGetName, (char *name, int size, CUdevice device), (name, size, device)) \
	F(CUresult, cuDeviceGetPCIBusId, (char *address, int size, CUdevice device), (address, size, device)) \
	F(CUresult, cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device), (value, attribute, device)) \
	F(CUresult, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device)) \
	F(CUresult, cuCtxSetCurrent, (CUcontext context), (context)) \
	F(CUresult, cuMemGetInfo_v2, (size_t * available, size_t * total), (available, total)) \
	F(CUresult, cuMemAlloc_v2, (CUdeviceptr * memory, size_t size), (memory, size)) \
	F(CUresult, cuMemFree_v2, (CUdeviceptr memory), (memory)) \
	F(CUresult, cuMemAllocHost_v2, (void **memory, size_t size), (memory, size)) \
	F(CUresult, cuMemFreeHost, (void *memory), (memory)) \
	F(CUresult, cuMemsetD32Async, (CUdeviceptr to, unsigned int value, size_t count, CUstream stream), (to, value, count, stream)) \
	F(CUresult, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream stream), (to, from, size, stream)) \
	F(CUresult, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream), (to, from, size, stream)) \
	F(CUresult, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), (to, from, size, stream)) \
	F(CUresult, cuStreamCreate, (CUstream * stream, unsigned int flags), (stream, flags)) \
	F(CUresult, cuStreamQuery, (CUstream stream), (stream)) \
	F(CUresult, cuStreamSynchronize, (CUstream stream), (stream)) \
	F(CUresult, cuModuleLoadData, (CUmodule * module, const void *image), (module, image)) \
	F(CUresult, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name), (function, module, name)) \
	F(CUresult, cuLaunchKernel, \
	  (CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ, unsigned int blockX, unsigned int blockY, \
	   unsigned int blockZ, unsigned int shared, CUstream stream, void **parameters, void **extra), \
	  (function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared, stream, parameters, extra))

#define NCCL_FUNCTIONS(F) \
	F(ncclResult_t, ncclGetVersion, (int *version), (version)) \
	F(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id), (id)) \
	F(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank), (comm, ranks, id, rank)) \
	F(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *error), (comm, error)) \
	F(ncclResult_t, ncclAllReduce, \
	  (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation, ncclComm_t comm, CUstream stream), \
	  (from, to, count, type, operation, comm, stream)) \
	F(ncclResult_t, ncclCommDestroy, (ncclComm_t comm), (comm)) \
	F(ncclResult_t, ncclCommAbort, (ncclComm_t comm), (comm)) \
	F(const char *, ncclGetErrorString, (ncclResult_t result), (result))

/* Of releases: ncclGetLastError is of 2.13, the others of 2.14. */
#define NCCL_FUNCTIONS_OF_LATER(F) \
	F(const char *, ncclGetLastError, (ncclComm_t comm), (comm)) \
	F(ncclResult_t, ncclCommInitRankConfig, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t * config), \
	  (comm, ranks, id, rank, config)) \
	F(ncclResult_t, ncclCommFinalize, (ncclComm_t comm), (comm))

#define FUNCTIONS(F) CUDA_FUNCTIONS(F) NCCL_FUNCTIONS(F) NCCL_FUNCTIONS_OF_LATER(F)

#pragma GCC visibility push(hidden)

#define POINTER(result, name, parameters, arguments) extern result(*found_##name) parameters;
FUNCTIONS(POINTER)
#undef POINTER

/* A function, and where its address goes. A list ends with one of no name. */
struct symbol {
	const char *name;
	void **found;
};
extern const struct symbol *const cuda_symbols, *const nccl_symbols, *const later_nccl_symbols;

/* Looks all of them up, and returns the name of the first that the library lacks, NULL for none. */
const char *find_symbols(void *library, const struct symbol *symbols);

#pragma GCC visibility pop

#ifndef TYPES_ARE_THEIRS
#define CALL(result, name, parameters, arguments) \
	static inline result name parameters { return found_##name arguments; }
FUNCTIONS(CALL)
#undef CALL
#endif

#endif
