// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// TestNoSudoForRoot checks commands for nodes on which preflight logs in as root. sudo is not
// needed there, and may be missing.
func TestNoSudoForRoot(t *testing.T) {
	remedy := []fix.Command{fix.On("sudo mount x && sudo tee y"), fix.Console("sudo start   # on {node}'s console"), fix.Here("sudo tee /etc/hosts"), fix.On("sudoedit z")}
	plain := []string{"ssh -n w1 'mount x && tee y'", "start   # on w1's console", "sudo tee /etc/hosts", "ssh -t w1 vi z"}
	for name, c := range map[string]struct {
		change func(*fleettest.Fleet)
		want   []string
	}{
		"an account": {func(*fleettest.Fleet) {}, []string{"ssh -n w1 'sudo mount x && sudo tee y'", "sudo start   # on w1's console", "sudo tee /etc/hosts", "ssh -t w1 sudoedit z"}},
		"root":       {func(f *fleettest.Fleet) { f.Nodes[0].Host.User = "root" }, plain},
		"root, not seen": {func(f *fleettest.Fleet) {
			f.Nodes[0].Host, f.Nodes[0].SSH = nil, &facts.SSH{User: "root"}
		}, plain},
		"root here": {func(f *fleettest.Fleet) { f.Head.Host.User = "root" }, []string{"ssh -n w1 'sudo mount x && sudo tee y'", "sudo start   # on w1's console", "tee /etc/hosts", "ssh -t w1 sudoedit z"}},
	} {
		fleet := fleettest.Healthy(2)
		c.change(&fleet)
		got := Evaluate([]checks.Check{fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad", Remedy: remedy})}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()).Findings[0].Fix
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFilesOfTheContainer checks that commands with sudo go to the machine, except those that change
// files by which programs in a container find names and settings.
func TestFilesOfTheContainer(t *testing.T) {
	fleet := fleettest.Healthy(2)
	fleet.Nodes[0].SSH = &facts.SSH{User: "root", Inside: []string{"docker", "exec", "-i", "train"}}
	fleet.Nodes[0].Host.User = "root"
	remedy := []fix.Command{fix.On("echo a b | sudo tee -a /etc/hosts"), fix.On("sudo ls /etc/hosts.allow"), fix.On("sudo sysctl -w x")}
	got := Evaluate([]checks.Check{fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad", Remedy: remedy})}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()).Findings[0].Fix
	want := []string{`ssh -n w1 "docker exec -i train sh -c 'echo a b | tee -a /etc/hosts'"`, "ssh -n w1 sudo ls /etc/hosts.allow", "ssh -n w1 sudo sysctl -w x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSudoForMixedAccounts checks that one account that needs sudo adds sudo for all nodes of a
// finding. That is correct because root can use sudo too.
func TestSudoForMixedAccounts(t *testing.T) {
	fleet := fleettest.Healthy(2)
	fleet.Nodes[0].Host.User = "root"
	got := Evaluate([]checks.Check{fleettest.Says("x", checks.Finding{Nodes: []string{"w1", "w2"}, Summary: "bad", Remedy: []fix.Command{fix.On("sudo true")}})}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()).Findings[0].Fix
	if !slices.Equal(got, []string{"pdsh -R ssh -w 'w[1-2]' sudo true"}) {
		t.Errorf("fix %q", got)
	}
}
