// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

type opPool struct {
	since string
	label string
	bytes int64
}

// opPools lists the sizes of struct ncclProxyOpsPool in src/include/proxy.h, newest first, at
// NVIDIA/nccl's tags from v2.14.3-1 to v2.30.7-1.
var opPools = []opPool{
	{"2.28", "2.28-2.30", 34210176},
	{"2.26", "2.26-2.27", 33030528},
	{"2.25", "2.25", 31850880},
	{"2.24", "2.24", 14156128},
	{"2.23", "2.23", 10486112},
	{"2.21", "2.21-2.22", 7340384},
	{"2.20", "2.20", 5767520},
	{"2.14", "2.14-2.19", 4194656},
}

const (
	// beyondPools is the first release that opPools does not cover.
	beyondPools = "2.31"
	// shmReference is the size of the counter that NCCL appends to every file in /dev/shm
	// (misc/shmutils.cc, ncclShmOpen).
	shmReference = 4
	// shmDirection is the size in bytes of one direction of one channel between two GPUs without
	// peer access. It consists of a sender's page, a receiver's page, and the receiver's LL, LL128
	// and SIMPLE buffers at NCCL's default buffer sizes (transport/shm.cc, 2.12.7 to 2.30.7).
	shmDirection = 4096 + shmReference + 4096 + 524288 + 4915200 + 4194304 + shmReference
	// leastChannels is 2, because NCCL doubles the rings that it finds, and it finds at least one
	// (graph/connect.cc, ncclTopoPostset, 2.30.7).
	leastChannels = 2
)

// shmUse is what NCCL reserves in a node's /dev/shm, in bytes.
type shmUse struct {
	// Bytes is the guaranteed minimum. It is 0 for a job on one node, which uses only Segments.
	Bytes int64
	// Block is the size of one op pool, 0 if there is none. NCCL's error has this size if /dev/shm
	// is full.
	Block int64
	// Segments is needed in addition if the node's GPUs cannot reach each other directly (no NVLink
	// or peer access, NCCL_P2P_DISABLE) and NCCL does not use cuMem host memory. It is the size of
	// two channels of rings over all ranks, which is again a minimum.
	Segments int64
	// Arithmetic shows how Bytes was calculated, so that people can check it.
	Arithmetic string
}

// SHMNeed returns what the given version of NCCL reserves in the /dev/shm of a node. ranks is the
// number of ranks on the node, and nodes is the number of nodes in the job. The proxy of every rank
// and communicator has a pool of operations in /dev/shm as soon as it connects to another node. 0
// communicators count as 1, the default process group. Every further group on GPUs (tensor,
// pipeline, expert parallelism) adds one communicator on its ranks.
//
// An unknown version, or one newer than the table, gets the newest row. A version before 2.14 gets
// the oldest row. In both cases, the field Arithmetic says so.
//
// Source: NVIDIA/nccl, proxy.cc, proxyProgressInit, v2.14.3-1 to v2.30.7-1.
func SHMNeed(nccl string, ranks, nodes, communicators int) shmUse {
	communicators = max(communicators, 1)
	var use shmUse
	if ranks > 1 {
		use.Segments = int64(ranks) * leastChannels * shmDirection
	}
	if nodes < 2 {
		use.Arithmetic = "one node: NCCL needs nothing in /dev/shm"
		return use
	}
	pool, which := poolOf(nccl)
	use.Block = pool.bytes + shmReference
	use.Bytes = int64(ranks) * int64(communicators) * use.Block
	use.Arithmetic = fmt.Sprintf("%s × %s × %.1f MiB for NCCL (%s)",
		count(ranks, "rank"), count(communicators, "communicator"), float64(pool.bytes)/(1<<20), which)
	return use
}

func poolOf(nccl string) (pool opPool, which string) {
	newest, oldest := opPools[0], opPools[len(opPools)-1]
	if nccl == "" {
		return newest, "NCCL version unknown, assumed " + newest.label
	}
	if _, err := version.NewVersion(nccl); err != nil {
		return newest, fmt.Sprintf("NCCL version %q not understood, treated as %s", nccl, newest.label)
	}
	for _, row := range opPools {
		if !hostfile.Before(nccl, row.since) {
			if row == newest && !hostfile.Before(nccl, beyondPools) {
				return row, fmt.Sprintf("NCCL %s is newer than the table, treated as %s", nccl, row.label)
			}
			return row, "NCCL " + row.label
		}
	}
	return oldest, fmt.Sprintf("NCCL %s is older than the table, treated as %s", nccl, oldest.label)
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// CuMemHostProbed reports whether every process with this library tests for itself whether cuMem
// host memory works. Each process tests on the NUMA node of its own GPU. If a machine's NUMA nodes
// differ, its ranks may therefore choose different transports.
//
// driverCUDA is the CUDA version of the driver ("12.6"). "" means unknown and counts as the newest,
// so that the result is not false for an unknown driver. env is the ranks' environment.
//
// Source: NVIDIA/nccl, misc/cudawrap.cc, ncclCuMemHostEnable: the test is in v2.26.3-1 and later
// (issue 2190, PR 2059), in builds with CUDA 12.2 or later, by default with drivers of CUDA 12.6 or
// later; transport/shm.cc reads NCCL_CUMEM_ENABLE first.
func CuMemHostProbed(library facts.NCCLLibrary, driverCUDA string, env launch.Env) bool {
	if hostfile.Before(library.Version, "2.26.3") || hostfile.Before(library.CUDA, "12.2") || hostfile.Before(driverCUDA, "12.2") {
		return false
	}
	if enable, set := parameter(env.Get("NCCL_CUMEM_ENABLE")); set && enable == 0 {
		return false
	}
	if host, set := parameter(env.Get("NCCL_CUMEM_HOST_ENABLE")); set && host != -1 {
		return host != 0
	}
	return !hostfile.Before(driverCUDA, "12.6")
}

// parameter returns the value of a numeric variable as NCCL reads it: 0 if it is not a number.
func parameter(setting facts.Setting) (value int64, set bool) {
	value, _ = Number(setting.Value)
	return value, setting.Value != ""
}

// Number parses a numeric variable as NCCL does, with strtoll and base 0 (misc/param.cc,
// ncclLoadParam). isNumber reports whether the text starts with a number. NCCL ignores what follows
// the number.
func Number(text string) (value int64, isNumber bool) {
	const longest = 80 // longest notation of a 64-bit number
	text = strings.TrimLeft(text, " \t\n\v\f\r")
	text = text[:min(len(text), longest)]
	for end := len(text); end > 0; end-- {
		if value, err := strconv.ParseInt(text[:end], 0, 64); err == nil {
			return value, true
		}
	}
	return 0, false
}

// IsOn reports whether a variable turns a setting on: any number except 0.
func IsOn(value string) bool {
	n, _ := Number(value)
	return n != 0
}
