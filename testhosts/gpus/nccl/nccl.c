// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for NCCL. It sums floats over TCP in the process that created the ID. Its memory is
 * that of the host, as in the stand-in for CUDA. Its troubles are those of the current card.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../cuda/trouble.h"
#include "meet.h"

struct ncclComm {
	nvmlDevice_t card;
	struct sockaddr_in where;
	int rank, ranks, socket, gone;
	volatile ncclResult_t state;
};

/* Programs that search the file for a version find this text. */
__attribute__((used)) static const char banner[] = "NCCL version 2.21.5+cuda12.4";

/* Programs that search the file for GPU code find a fat binary as nvcc writes it, for all GPUs since Ampere. */
#define CODE(sm) {2, 0x101, 64, 8, {0}, sm, {0}, "nothing"}
__attribute__((used, section(".nv_fatbin"))) static const struct {
	unsigned magic;
	unsigned short version, header;
	unsigned long length;
	struct {
		unsigned short kind, version;
		unsigned header;
		unsigned long length;
		unsigned unused[3], arch, rest[8];
		char code[8];
	} entries[5];
} fat_binary = {0xba55ed50, 1, 16, sizeof fat_binary.entries, {CODE(75), CODE(80), CODE(90), CODE(100), CODE(120)}};

char last_error[LAST_ERROR];

ncclResult_t complain(ncclResult_t result, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(last_error, sizeof last_error, format, values);
	va_end(values);
	printf("NCCL WARN %s\n", last_error);
	fflush(stdout);
	return result;
}

/* card returns the card of the CUDA context of this thread. */
static nvmlDevice_t card(void)
{
	static int read;
	int device = 0, (*get)(int *) = NULL;
	const char *shown = getenv("CUDA_VISIBLE_DEVICES");
	void *cuda = dlopen("libcuda.so.1", RTLD_LAZY);

	if (!read)
		read = scenario_read();
	if (cuda)
		get = (int (*)(int *))dlsym(cuda, "cuCtxGetDevice");
	if (!read || !get || get(&device) != 0)
		return MACHINE;
	for (; shown && device > 0; device--) {
		shown += strcspn(shown, ",");
		shown += *shown == ',';
	}
	return scenario_device(MACHINE, shown ? atoi(shown) : device);
}

/* A destroyed communicator must not be used again: NCCL would read freed memory. */
#define ENTER_COMM(comm) \
	do { \
		if ((comm)->gone) \
			abort(); \
		ENTER_CARD((comm)->card); \
	} while (0)

#define ENTER_CARD(card) \
	do { \
		int code = trouble_enter(__func__, card); \
		if (code != ncclSuccess) \
			return complain((ncclResult_t)code, "%s failed, as it was told to", __func__); \
	} while (0)

ncclResult_t ncclGetVersion(int *version)
{
	*version = 22105;
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const words[] = {
		"no error", "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)", "internal error - please report this issue to the NCCL developers",
		"invalid argument (run with NCCL_DEBUG=WARN for details)", "invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error", "NCCL operation in progress",
	};
	return (size_t)result < sizeof words / sizeof *words ? words[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return last_error;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	struct sockaddr_in where;

	ENTER_CARD(card());
	memset(id, 0, sizeof *id);
	ncclResult_t result = meet_open(&where);
	memcpy(id, &where, sizeof where);
	return result;
}

/* leave creates the file in /dev/shm that a killed NCCL leaves behind. */
static void leave(void)
{
	char name[64];

	snprintf(name, sizeof name, "/nccl-%06x", (unsigned int)getpid());
	close(shm_open(name, O_CREAT | O_RDWR, 0600));
}

static ncclResult_t join(struct ncclComm *comm, const char *function)
{
	int code = trouble_enter(function, comm->card);

	if (trouble(function, comm->card, "leave"))
		leave();
	if (code != ncclSuccess)
		return complain((ncclResult_t)code, "%s failed, as it was told to", function);
	return meet_join(&comm->where, comm->rank, comm->ranks, &comm->socket);
}

static void *join_behind(void *all)
{
	struct ncclComm *comm = all;

	comm->state = join(comm, "ncclCommInitRankConfig");
	return NULL;
}

static struct ncclComm *made(int ranks, const ncclUniqueId *id, int rank)
{
	struct ncclComm *comm = calloc(1, sizeof *comm);

	memcpy(&comm->where, id, sizeof comm->where);
	comm->card = card();
	comm->rank = rank;
	comm->ranks = ranks;
	comm->socket = -1;
	return comm;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
	struct ncclComm *new = made(ranks, &id, rank);
	ncclResult_t result = join(new, __func__);

	*comm = new;
	return result;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	pthread_t thread;
	const char *blocking = getenv("NCCL_COMM_BLOCKING");

	if (config->magic != 0xcafebeef)
		return complain(ncclInvalidArgument, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
	*comm = made(ranks, &id, rank);
	if (blocking ? atoi(blocking) : config->blocking)
		return join(*comm, __func__);
	(*comm)->state = ncclInProgress;
	pthread_create(&thread, NULL, join_behind, *comm);
	pthread_detach(thread);
	return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	if (comm->gone)
		abort();
	*error = comm->state;
	if (*error == ncclSuccess)
		*error = (ncclResult_t)trouble_enter(__func__, comm->card);
	return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation, ncclComm_t comm,
                           cudaStream_t stream)
{
	(void)stream;
	ENTER_COMM(comm);
	if (type != ncclFloat32 || operation != ncclSum)
		return complain(ncclInvalidArgument, "AllReduce : only sums of float32 are stood in for");
	ncclResult_t result = meet_reduce(comm->socket, from, to, count);
	if (result == ncclSuccess && trouble(__func__, comm->card, "wrong"))
		((float *)to)[count / 2]++;
	if (result == ncclSuccess && trouble(__func__, comm->card, "nan"))
		((float *)to)[count / 2] = NAN;
	return result;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	ENTER_COMM(comm);
	return ncclSuccess;
}

/* The communicator is not freed, because another thread may still wait in it. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	comm->gone++;
	ENTER_CARD(comm->card);
	close(comm->socket);
	return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	ENTER_COMM(comm);
	comm->gone++;
	shutdown(comm->socket, SHUT_RDWR);
	return ncclSuccess;
}
