// SPDX-License-Identifier: Apache-2.0
/* The meeting point of the ranks: a thread of the process that created the ID. It also reduces. */
#ifndef MEET_H
#define MEET_H

#include <arpa/inet.h>

#include "abi.h"

/* Opens a meeting point on the interface that NCCL would use, and returns its address. */
ncclResult_t meet_open(struct sockaddr_in *where);

/* Connects as one of the ranks and waits for the others. It sets the socket at once, so that another thread can shut it down. */
ncclResult_t meet_join(const struct sockaddr_in *where, int rank, int ranks, int *socket);

/* Sums the values of all ranks that have met. */
ncclResult_t meet_reduce(int socket, const float *from, float *to, size_t count);

#endif
