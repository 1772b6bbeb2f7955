// SPDX-License-Identifier: Apache-2.0

package c10d

import "strconv"

// JoinedKey counts the clients that have told how many there will be: the ranks of a job, and before them
// the launchers of torchrun's static backend.
//
// Source: torch 1.9 to 2.15, torch/csrc/distributed/c10d/TCPStore.cpp, waitForWorkers.
const JoinedKey = "init/"

// BarrierKeys count the ranks at the barrier behind init_process_group, in the order in which they are to be
// looked for. Up to torch 2.0 all come there, and the default group is number 1; since 2.1, where it is number 0,
// with TORCH_DIST_INIT_BARRIER alone. Where the launcher serves the store, the key has the attempt.
//
// Source: torch 1.13, 2.4 and 2.15, torch/distributed/distributed_c10d.py, _store_based_barrier;
// torch/distributed/rendezvous.py, _create_c10d_store.
func BarrierKeys(restarts int) (keys []string) {
	const barrier = "default_pg/store_based_barrier_key:"
	for _, prefix := range []string{"/", "//worker/attempt_" + strconv.Itoa(restarts) + "/"} {
		keys = append(keys, prefix+barrier+"0", prefix+barrier+"1")
	}
	return keys
}

// RoleKey is where the launcher of a node tells of its ranks, by torchrun's static backend that of another
// node than itself; OlderRoleKey is where those of torch 1.13 do.
//
// Source: torch 1.13, 2.4 and 2.15, torch/distributed/elastic/agent/server/api.py;
// torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py has the run ID before it.
func RoleKey(runID string, node int) string {
	return "/" + runID + "/torchelastic/role_info/" + strconv.Itoa(node)
}

func OlderRoleKey(runID string, node int) string {
	return "/" + runID + "/torchelastic/role_info" + strconv.Itoa(node)
}
