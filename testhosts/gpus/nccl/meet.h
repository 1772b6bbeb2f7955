// SPDX-License-Identifier: Apache-2.0
/* Where ranks meet: a thread of the process that made the id, at which they also reduce. */
#ifndef MEET_H
#define MEET_H

#include <arpa/inet.h>

#include "abi.h"

/* Opens a place to meet on the interface that NCCL would take, and says where. */
ncclResult_t meet_open(struct sockaddr_in *where);

/* Goes there as one rank of so many, and waits for the others. The socket is told at once, so that another thread can shut it. */
ncclResult_t meet_join(const struct sockaddr_in *where, int rank, int ranks, int *socket);

/* Sums over all that have met. */
ncclResult_t meet_reduce(int socket, const float *from, float *to, size_t count);

#endif
