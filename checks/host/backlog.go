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
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNet},
	Run:      judgeBacklog,
}

// Source: torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp, DEFAULT_BACKLOG, and socket.cpp;
// NVIDIA/nccl 2.30, src/misc/socket.cc, ncclSocketListen.
func judgeBacklog(view checks.View) []checks.Finding {
	world := view.Launch.WorldSize()
	if world == 0 {
		return checks.Skipped("the number of ranks is not known")
	}
	first, findings := names.NodeZero(view)
	switch {
	case first == nil:
		return findings
	case first.Net.SoMaxConn == 0:
		return []checks.Finding{checks.UnknownFor(first, "net: the kernel does not report net.core.somaxconn")}
	case first.Net.SoMaxConn >= world:
		return nil
	}
	return []checks.Finding{{
		Nodes:   []string{first.Name},
		Summary: fmt.Sprintf("node 0 queues at most %d connections, but there are %d ranks", first.Net.SoMaxConn, world),
		Got:     fmt.Sprintf("net.core.somaxconn is %d", first.Net.SoMaxConn),
		Want:    fmt.Sprintf("at least %d, the number of ranks", world),
		Remedy:  remedy.LengthenBacklog(first, world),
	}}
}
