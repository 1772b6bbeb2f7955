// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/checks"
	"preflight/testhosts"
	"preflight/testhosts/gpus"
)

// drift is one change to a node of a running cluster, with the one finding that must result.
type drift struct {
	name   string
	change plant
	want   checks.Finding // the test compares its verdict, summary, got and want
}

// drifts returns typical changes of clusters.
func drifts(cluster *testhosts.Cluster) []drift {
	return []drift{
		{"driver bump", func(n *testhosts.Node) (testhosts.Undo, error) {
			newer := gpus.H100s(8)
			newer.Driver, newer.Module, newer.FabricManager, newer.CUDA = "570.86.15", "570.86.15", "570.86.15", "12.8"
			return n.SetDriver(newer)
		}, checks.Finding{
			Verdict: checks.Fail, Fact: "gpu.module", Summary: "the NVIDIA driver changed since the baseline",
			Got:  "gpu.module 570.86.15, nvml.driver 570.86.15, gpu.fabric_manager.version 570.86.15, gpu.libcuda.PATH.version 570.86.15, nvml.cuda 12.8, nvml.library 12.570.86.15",
			Want: "gpu.module 550.54.15, nvml.driver 550.54.15, gpu.fabric_manager.version 550.54.15, gpu.libcuda.PATH.version 550.54.15, nvml.cuda 12.4, nvml.library 12.550.54.15",
		}},
		{"MTU change", func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetMTU(9000) }, checks.Finding{
			Verdict: checks.Fail, Fact: "net.interfaces.eth0.mtu", Summary: "the MTU changed since the baseline",
			Got: "net.interfaces.eth0.mtu 9000", Want: "net.interfaces.eth0.mtu 1500",
		}},
		{"GPU lost", func(n *testhosts.Node) (testhosts.Undo, error) {
			lost := gpus.H100s(8)
			lost.Cards[3].Lost = true
			return n.SetDriver(lost)
		}, checks.Finding{
			Verdict: checks.Fail, Fact: "nvml.cards.3.failure.kind", Summary: "the GPUs changed since the baseline",
			Got: "nvml.cards.3.failure.kind lost", Want: "nvml.cards.3.failure.kind absent",
		}},
		{"package upgraded", upgradePackage, checks.Finding{
			Verdict: checks.Fail, Fact: "python.packages.protobuf", Summary: "the Python environment changed since the baseline",
			Got:  "python.packages.protobuf 5.29.1, python.protobuf.runtime 5.29.1",
			Want: "python.packages.protobuf 4.25.3, python.protobuf.runtime 4.25.3",
		}},
		{"node replaced", func(n *testhosts.Node) (testhosts.Undo, error) {
			return replaceNode(cluster, n)
		}, checks.Finding{
			Verdict: checks.Fail, Fact: "host.machine_id", Summary: "another machine than in the baseline, under the same name",
			Got: "host.machine_id " + newMachineID + ", shm.size 1.0 GiB", Want: "host.machine_id OLD, shm.size LARGE",
		}},
	}
}

// oldProtobuf is the version of protobuf that every node has.
const oldProtobuf = "4.25.3"

func upgradePackage(n *testhosts.Node) (testhosts.Undo, error) {
	if _, err := n.Run(context.Background(), "/bin/sh", "-ec", "rm -r ~/.local/lib/python3*/site-packages/protobuf-"+oldProtobuf+".dist-info"); err != nil {
		return nil, err
	}
	remove, err := n.OtherPackage("protobuf", "5.29.1")
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := n.OtherPackage("protobuf", oldProtobuf)
		return errors.Join(remove(), err)
	}, nil
}

const newMachineID = "0123456789abcdef0123456789abcdef"

// replaceNode makes a node look like another machine, with another machine ID, a smaller /dev/shm
// and another host key. The launching machine learns the new key.
func replaceNode(cluster *testhosts.Cluster, n *testhosts.Node) (testhosts.Undo, error) {
	old, err := n.Run(context.Background(), "cat", "/etc/machine-id")
	if err != nil {
		return nil, err
	}
	steps := []plant{
		(*testhosts.Node).ChangeHostKey,
		func(n *testhosts.Node) (testhosts.Undo, error) {
			return func() error {
					_, err := cluster.Head.Run(context.Background(), "mv", "/root/.ssh/known_hosts.was", "/root/.ssh/known_hosts")
					return err
				}, onHead(cluster, `cp -p ~/.ssh/known_hosts ~/.ssh/known_hosts.was
ssh-keygen -R "$1" && ssh-keygen -R "$2" && ssh-keyscan -t ed25519 "$1" >>~/.ssh/known_hosts`, n.Name, n.Address)
		},
		func(n *testhosts.Node) (testhosts.Undo, error) {
			return func() error { return n.WriteFile("/etc/machine-id", []byte(old), 0o444) },
				n.WriteFile("/etc/machine-id", []byte(newMachineID+"\n"), 0o444)
		},
		func(n *testhosts.Node) (testhosts.Undo, error) { return n.ShrinkSHM(1 << 30) },
	}
	var undos []testhosts.Undo
	undo := func() (err error) {
		for _, back := range undos {
			err = errors.Join(err, back())
		}
		return err
	}
	for _, step := range steps {
		back, err := step(n)
		if back != nil {
			undos = append([]testhosts.Undo{back}, undos...)
		}
		if err != nil {
			return nil, errors.Join(err, undo())
		}
	}
	return undo, nil
}

func onHead(cluster *testhosts.Cluster, script string, args ...string) error {
	_, err := cluster.Head.Run(context.Background(), append([]string{"/bin/sh", "-ec", script, "sh"}, args...)...)
	return err
}

// TestDrift takes a baseline of a cluster and changes the cluster in one way after another. Each
// change must be found alone, and must not be reported after it is undone.
func TestDrift(t *testing.T) {
	cluster := raise(t, "drift")
	for _, node := range cluster.Nodes {
		if _, err := node.SetDriver(gpus.H100s(8)); err != nil {
			t.Fatal(err)
		}
		if _, err := node.OtherPackage("protobuf", oldProtobuf); err != nil {
			t.Fatal(err)
		}
	}
	golden := snapshot(t, cluster, "golden.json")
	if again := snapshot(t, cluster, "again.json"); !bytes.Equal(golden, again) {
		t.Errorf("the same nodes seen twice (-first +second):\n%s", cmp.Diff(string(golden), string(again)))
	}
	since := func(t *testing.T, baseline string, more ...string) []checks.Finding {
		t.Helper()
		return judgeWith(t, cluster, binary(t), append([]string{"--accelerator", "cuda", "--only", "drift", "--baseline", baseline}, more...)...).Findings
	}
	find := func(t *testing.T, got []checks.Finding, want ...checks.Finding) {
		t.Helper()
		told := cmpopts.IgnoreFields(checks.Finding{}, "Check", "Fix", "Roles", "Notes", "Decide", "WouldSee", "Changes")
		for i := range got {
			got[i].Got, got[i].Want = everywhere(got[i].Got), everywhere(got[i].Want)
		}
		if diff := cmp.Diff(want, got, told, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	}
	find(t, since(t, "golden.json"))
	for _, d := range drifts(cluster) {
		t.Run(d.name, func(t *testing.T) {
			t.Run("done", func(t *testing.T) {
				plantOn(t, cluster, "w3", d.change)
				d.want.Nodes = []string{"w3"}
				find(t, since(t, "golden.json"), d.want)
			})
			find(t, since(t, "golden.json"))
		})
	}
	t.Run("a machine under another name", func(t *testing.T) {
		snapshot(t, cluster, "renamed.json")
		asOther(t, "renamed.json", "w4", "x4")
		find(t, since(t, "renamed.json"), checks.Finding{
			Verdict: checks.Warn, Nodes: []string{"w4"}, Summary: "the baseline has the same machine under another name", Got: "w4", Want: "x4",
		})
	})
	t.Run("node added", func(t *testing.T) {
		snapshot(t, cluster, "three.json", "--exclude", "w4")
		find(t, since(t, "three.json"), checks.Finding{
			Verdict: checks.Warn, Nodes: []string{"w4"}, Summary: "new since the baseline",
			Got: "in the fleet", Want: "in the baseline",
		})
		find(t, since(t, "three.json", "--exclude", "w4"))
	})
	t.Run("node left out", func(t *testing.T) { find(t, since(t, "golden.json", "--exclude", "w4")) })
	t.Run("node gone from the hostfile", func(t *testing.T) {
		if err := onHead(cluster, `grep -v w4 ~/hostfile >~/three`); err != nil {
			t.Fatal(err)
		}
		report := reported(t, cluster.OnHead(t.Context(), binary(t), "-H", "/root/three", "--accelerator", "cuda", "--only", "drift", "--baseline", "golden.json", "--format", "json"))
		find(t, report.Findings, checks.Finding{
			Verdict: checks.Warn, Nodes: []string{"w4"}, Summary: "in the baseline, but no longer in the hostfile",
			Got: "not in the hostfile", Want: "in the hostfile, as in the baseline",
		})
	})
}

// asOther renames a node in a snapshot, as if the node had that name when the snapshot was taken.
func asOther(t *testing.T, file, node, other string) {
	t.Helper()
	file = filepath.Join(sharedPrograms, file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	named := bytes.Replace(text, []byte(`"name": "`+node+"\",\n   \"address\""), []byte(`"name": "`+other+"\",\n   \"address\""), 1)
	if bytes.Equal(named, text) {
		t.Fatalf("%s has no node %s", file, node)
	}
	if err := os.WriteFile(file, named, 0o644); err != nil {
		t.Fatal(err)
	}
}

// everywhere replaces values that differ between the machines on which this test runs with
// placeholders.
func everywhere(text string) string {
	text = regexp.MustCompile(`libcuda\.\S+\.version`).ReplaceAllString(text, "libcuda.PATH.version")
	if !strings.Contains(text, newMachineID) {
		text = regexp.MustCompile(`machine_id [0-9a-f]{32}`).ReplaceAllString(text, "machine_id OLD")
		text = regexp.MustCompile(`shm\.size [\d.]+ [A-Z]iB`).ReplaceAllString(text, "shm.size LARGE")
	}
	return text
}

// snapshot writes a normalized snapshot into a file that the launching machine shares with the
// test, and returns its text.
func snapshot(t *testing.T, cluster *testhosts.Cluster, name string, more ...string) []byte {
	t.Helper()
	argv := append([]string{binary(t), "snapshot", "--normalize", "-q", "-H", testhosts.HostfilePath, "--accelerator", "cuda", "-o", name}, more...)
	cmd := cluster.OnHead(t.Context(), argv...)
	cmd.Dir = sharedPrograms
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(sharedPrograms, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
