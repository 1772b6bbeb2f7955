// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"

	"preflight/checks"
	"preflight/checks/names"
	"preflight/checks/remedy"
	"preflight/facts"
)

var AcceptBacklog = checks.Check{
	ID:       "accept-backlog",
	Title:    "the first node's kernel lets all ranks call at once",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNet},
	Doc: "Every rank calls rank 0 at the same moment, first torch's store and then NCCL's bootstrap. Who is not taken yet waits in a queue that the kernel keeps no longer than " +
		"net.core.somaxconn, whatever the program asks for (torch: as long as may be; NCCL: 16,384): 4,096 since Linux 5.4, 128 before and wherever somebody wrote that into " +
		"sysctl.conf. Whose call finds it full is not answered and calls again a second later, then two, then four. The queue is to hold the ranks of the whole launch.",
	WouldSee: "torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to (ADDRESS, 29500), of some of many ranks",
	Run:      judgeBacklog,
}

// Source: torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp, DEFAULT_BACKLOG, and socket.cpp;
// NVIDIA/nccl 2.30, src/misc/socket.cc, ncclSocketListen.
func judgeBacklog(view checks.View) []checks.Finding {
	world := view.Launch.WorldSize()
	if world == 0 {
		return checks.Skipped("how many ranks there will be is not known")
	}
	first, findings := names.NodeZero(view)
	switch {
	case first == nil:
		return findings
	case first.Net.SoMaxConn == 0:
		return []checks.Finding{checks.UnknownFor(first, "net: the kernel does not tell net.core.somaxconn")}
	case first.Net.SoMaxConn >= world:
		return nil
	}
	return []checks.Finding{{
		Nodes:   []string{first.Name},
		Summary: "the queue for calls to rank 0 is shorter than there are ranks",
		Got:     fmt.Sprintf("net.core.somaxconn is %d", first.Net.SoMaxConn),
		Want:    fmt.Sprintf("at least %d, as many as there are ranks", world),
		Remedy:  remedy.LengthenBacklog(first, world),
	}}
}
