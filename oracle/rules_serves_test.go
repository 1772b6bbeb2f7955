// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/launch"
)

// machine describes how a node resolves its own name and other names, and the host of the endpoint
// in question.
type machine struct {
	Own   string `json:"own"`
	Hosts string `json:"hosts"` // the text of the machine's /etc/hosts
	Host  string `json:"host"`
}

// TestRulesServes asks torchrun's c10d mode, on machines with all kinds of names, whether this
// machine is the host of the endpoint. It compares the answer with launch's prediction from the
// facts of a probe on the same machine.
func TestRulesServes(t *testing.T) {
	t.Parallel()
	if !inOwnNamespaces(t) {
		return
	}
	machines := randomMachines(600)
	nodes := make([]*facts.Node, len(machines))
	for i, m := range machines {
		if err := os.WriteFile("/etc/hosts", []byte(m.Hosts), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unix.Sethostname([]byte(m.Own)); err != nil {
			t.Fatal(err)
		}
		nodes[i] = look(t, []string{m.Host}, facts.SectionNames)
	}
	eachRelease(t, func(t *testing.T, r release) {
		version, all := answers[string](t, machines, r.python, "-W", "ignore", "rules.py", "serves")
		count := map[string]int{}
		for i, want := range all {
			node := *nodes[i]
			node.Python = &facts.Python{Torch: &facts.Torch{Version: version}}
			got, why := predictServing(machines[i].Host, &node)
			if got != want {
				t.Errorf("torch %s, %+v: %s, predicted is %s: %s; it sees %+v", version, machines[i], want, got, why, *node.Names)
			}
			count[want]++
		}
		t.Logf("torch %s: %d machines: %v", version, len(machines), count)
		if len(count) != 3 {
			t.Error("some outcome never came")
		}
	})
}

// predictServing returns launch's prediction in the format of rules.py.
func predictServing(host string, node *facts.Node) (outcome, why string) {
	c10d := launch.Prediction{Rendezvous: launch.RendezvousC10d}
	serves, why := c10d.Serves(launch.Endpoint{Host: host}, node, node)
	switch {
	case serves:
		return "yes", why
	case strings.Contains(why, "socket.gaierror"):
		return "dies", why
	case strings.HasPrefix(why, "not known"):
		return "not known", why
	}
	return "no", why
}

// randomMachines returns the same machines in every run.
func randomMachines(count int) []machine {
	r := rand.New(rand.NewPCG(1, 13))
	addresses := []string{"10.0.0.1", "10.0.0.2", "127.0.1.1", "fd00::1", "127.0.0.1"}
	hosts := append([]string{
		"w1", "w2", "node1", "w1.cluster", "w2.cluster", "W1", "W1.Cluster", "localhost", "gone",
		"fd00:0::1", "::1", "fe80::1%lo", "10.1", "::ffff:10.0.0.1", "0.0.0.0",
	}, addresses...)
	all := make([]machine, count)
	for i := range all {
		var lines strings.Builder
		for range 1 + r.IntN(5) {
			name := pick(r, "w1", "w2", "node1")
			aliases := pick(r, name, name, name+".cluster "+name, name+" "+name+".cluster", name+" node1")
			fmt.Fprintln(&lines, pick(r, addresses...), aliases)
		}
		all[i] = machine{Own: pick(r, "w1", "w1", "W1", "w2", "w1.cluster"), Hosts: lines.String(), Host: pick(r, hosts...)}
	}
	return all
}
