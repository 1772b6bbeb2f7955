// SPDX-License-Identifier: Apache-2.0

// Package nccl predicts what NCCL and gloo choose on a node: interfaces and addresses,
// RDMA ports and their GIDs, the transport between GPUs and between nodes, and the shared
// memory that NCCL takes. Each rule names the release it was read from.
//
// It goes by the facts of a node and the environment of its ranks alone, opens no device
// and measures nothing; whether a choice is a good one is for checks.
package nccl
