// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/testhosts"
)

// intoDocker enters the containers of TestDocker, which have the same name on each node.
const intoDocker = "docker exec -i train"

// TestDocker runs preflight for ranks in Docker containers, with a real daemon on each node. A
// container is started in the wrong way on one node, and preflight must report it there. The printed
// fix must then cure it.
func TestDocker(t *testing.T) {
	if err := testhosts.HasDocker(); err != nil {
		t.Skipf("NOT RUN: %s needs a Docker daemon: %v", t.Name(), err)
	}
	cluster := raiseWith(t, testhosts.Options{Name: "dockers", Nodes: 2})
	installTorch(t, cluster)
	fine := []string{"--network=host", "--shm-size=1g"}
	container := func(t *testing.T, node string, options []string) {
		t.Helper()
		plantOn(t, cluster, node, func(n *testhosts.Node) (testhosts.Undo, error) {
			return n.RunDocker("train", slices.Concat([]string{"--volume", "/root/.local:/root/.local:ro", "--volume", sharedPrograms + ":" + sharedPrograms}, options)...)
		})
	}
	for _, n := range cluster.Nodes {
		if err := n.StartDocker(); err != nil {
			t.Fatal(err)
		}
		container(t, n.Name, fine)
	}
	judge := func(t *testing.T, words []string) checks.Report {
		t.Helper()
		// Every container is new, so preflight delivers its agent first.
		return judgeWith(t, cluster, binary(t), append([]string{"--accelerator", "cpu", "--timeout", "1m"}, words...)...)
	}
	in := []string{"--in", intoDocker}
	for _, test := range []struct {
		name    string
		on      string   // the nodes with the wrong container, separated by spaces
		options []string // options of docker run on these nodes
		words   []string
		want    []string
		fix     string   // expected in a fix or a note
		cure    []string // the options of docker run that fix names; nil if the fix is a command, which the test pastes
	}{
		{"healthy", "w2", fine, in, []string{}, "", fine},
		{"the default shared memory", "w2", fine[:1], in, []string{"warn shm-size [w2]"}, "docker run --shm-size=1g, or with --ipc=host", fine},
		{"the default shared memory, cured by the machine's", "w2", fine[:1], in, []string{"warn shm-size [w2]"}, "docker run --shm-size=1g, or with --ipc=host", []string{"--network=host", "--ipc=host"}},
		{"few open files", "w2", append(fine, "--ulimit=nofile=1024:1024"), in, []string{"warn open-files-limit [w2]"}, "docker run --ulimit nofile=", fine},
		{"a network of its own", "w2", fine[1:], in, []string{"fail nic-choice [w2]"}, "docker run --network=host", fine},
		{"a user", "w2", append(fine, "--user=1000"), in, []string{"warn disk-space [w2]"}, "give the user who launches write access", fine},
		{"a read-only root", "w2", append(fine, "--read-only"), in, []string{"unknown agent-start [w2]"}, "docker run --tmpfs /tmp:exec", append(fine, "--read-only", "--tmpfs=/tmp:exec", "--tmpfs=/root:exec")},
		{"the hostname of all containers", "w1 w2", append(fine, "--hostname=trainer"), in, []string{"fail host-names [w1 w2]"}, "docker exec -i train", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, node := range strings.Fields(test.on) {
				container(t, node, test.options)
			}
			report := judge(t, test.words)
			if diff := cmp.Diff(test.want, short(report.Findings)); diff != "" {
				t.Errorf("findings (-want +got)\n%s\n%+v", diff, report.Findings)
			}
			var ways []string
			for _, f := range report.Findings {
				ways = slices.Concat(ways, f.Fix, f.Notes)
			}
			if !strings.Contains(strings.Join(ways, "\n"), test.fix) {
				t.Errorf("no fix has %q: %q", test.fix, ways)
			}
			for _, node := range strings.Fields(test.on) {
				if test.cure != nil {
					container(t, node, test.cure)
				}
			}
			if test.cure == nil {
				paste(t, cluster, report.Findings[0])
			}
			if report := judge(t, test.words); report.ExitCode != 0 || len(report.Findings) > 0 {
				t.Errorf("after the fix: exit code %d, findings %+v", report.ExitCode, report.Findings)
			}
		})
	}
}

// paste runs the first command of a finding that changes something, as a person does who pastes it
// into a shell of the launching machine.
func paste(t *testing.T, cluster *testhosts.Cluster, f checks.Finding) {
	t.Helper()
	at := slices.Index(f.Roles, "fix")
	if at < 0 {
		t.Fatalf("no command of %s changes anything: %q %q", f.Check, f.Roles, f.Fix)
	}
	if out, err := cluster.OnHead(t.Context(), "sh", "-c", f.Fix[at]).CombinedOutput(); err != nil {
		t.Errorf("the pasted fix %s: %v\n%s", f.Fix[at], err, out)
	}
}
