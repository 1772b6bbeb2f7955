// SPDX-License-Identifier: Apache-2.0

// Package fabric judges InfiniBand and RoCE as NCCL will use them: ports, addresses, drivers and
// whether the adapters of all nodes fit each other.
//
// It refuses to say that data passes: no drill sends any over it.
package fabric
