// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"preflight/testhosts"
)

// TestCutOff disconnects the launching machine in several ways while agents listen and connect to
// each other. Shortly after the disconnection, no process of preflight may be left on the nodes.
func TestCutOff(t *testing.T) {
	cluster := raise(t, "cut-off")
	for _, c := range []struct {
		name string
		cut  func(head *testhosts.Cmd) error
		heal func(head *testhosts.Cmd) error
	}{
		{"killed", func(head *testhosts.Cmd) error { return head.Process.Kill() }, nil},
		{"suspended",
			func(head *testhosts.Cmd) error { return head.Process.Signal(syscall.SIGSTOP) },
			func(head *testhosts.Cmd) error { return head.Process.Signal(syscall.SIGCONT) }},
		{"no network",
			func(*testhosts.Cmd) error { return firewall(cluster.Head, "-I") },
			func(*testhosts.Cmd) error { return firewall(cluster.Head, "-D") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := cluster.OnHead(t.Context(), binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--throughput", "--format", "json")
			head.Dir = sharedPrograms
			if err := head.Start(); err != nil {
				t.Fatal(err)
			}
			for _, node := range cluster.Nodes {
				awaitOurs(t, node, "agents that listen", func(listeners, agents string) bool { return listeners != "" })
			}
			if err := c.cut(head); err != nil {
				t.Fatal(err)
			}
			for _, node := range cluster.Nodes {
				awaitOurs(t, node, "nothing", func(listeners, agents string) bool { return listeners+agents == "" })
			}
			if c.heal != nil {
				if err := c.heal(head); err != nil {
					t.Error(err)
				}
			}
			_ = head.Wait() // other tests check the exit status
		})
	}
}

// firewall makes a machine drop all packets, or removes the rules that do this.
func firewall(machine *testhosts.Node, how string) error {
	for _, chain := range []string{"INPUT", "OUTPUT"} {
		if _, err := machine.Run(context.Background(), "iptables", "-w", how, chain, "-j", "DROP"); err != nil {
			return err
		}
	}
	return nil
}

// awaitOurs waits until right accepts the state of a node: the listeners except sshd, and all
// processes that sshd or an agent has started.
func awaitOurs(t *testing.T, node *testhosts.Node, what string, right func(listeners, agents string) bool) {
	t.Helper()
	var listeners, agents string
	pause := 50 * time.Millisecond
	for range 150 { // more than a minute: a process that ends only after its maximum life takes fifteen seconds
		out, err := node.Run(t.Context(), "/bin/sh", "-c", "ss -ltnpH | grep preflight; echo; ps -eo pid,args | grep -e '/preflight-[0-9a-f]' -e '/usr/bin/ssh -n' | grep -v grep; true")
		if err != nil {
			t.Fatal(err)
		}
		listeners, agents, _ = strings.Cut("\n"+out, "\n\n")
		if right(strings.TrimSpace(listeners), strings.TrimSpace(agents)) {
			return
		}
		time.Sleep(pause)
		pause = min(pause*5/4, time.Second/2) // a look takes 20 ms of a processor
	}
	t.Errorf("%s: timed out waiting for %s:\n%s%s", node.Name, what, listeners, agents)
}
