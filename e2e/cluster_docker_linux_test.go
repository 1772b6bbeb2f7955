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
		n, err := cluster.Node(node)
		if err != nil {
			t.Fatal(err)
		}
		// It replaces the container that is there, and ends with the daemon.
		if _, err := n.RunDocker("train", append([]string{"--volume=/root/.local:/root/.local:ro"}, options...)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range cluster.Nodes {
		plantOn(t, cluster, n.Name, (*testhosts.Node).StartDocker)
		container(t, n.Name, fine)
	}
	judge := func(t *testing.T, words []string) checks.Report {
		t.Helper()
		// Every container is new, so preflight delivers its agent first.
		return judgeWith(t, cluster, binary(t), append([]string{"--accelerator", "cpu", "--timeout", "1m"}, words...)...)
	}
	in := []string{"--in", intoDocker}
	withNCCL := append(in, "--accelerator", "cuda", "--skip", "slots-fit")
	for _, test := range []struct {
		name    string
		on      string   // the nodes with the wrong container, separated by spaces
		options []string // options of docker run on these nodes
		words   []string
		want    []string
		fix     string   // expected in a fix or a note of each finding
		cure    []string // the options of docker run that fix names; nil if the fix is a command, which the test pastes
	}{
		{"healthy", "w2", fine, in, []string{}, "", fine},
		{"the default shared memory", "w2", fine[:1], in, []string{"warn shm-size [w2]"}, "docker run --shm-size=1g, or with --ipc=host", fine},
		{"the default shared memory, cured by the machine's", "w2", fine[:1], in, []string{"warn shm-size [w2]"}, "docker run --shm-size=1g, or with --ipc=host", []string{"--network=host", "--ipc=host"}},
		{"too little shared memory for NCCL", "w2", fine[:1], withNCCL, []string{"fail shm-size [w2]"}, "docker run --shm-size=", append(fine, "--shm-size=16g")},
		{"few open files", "w2", append(fine, "--ulimit=nofile=1024:1024"), in, []string{"warn open-files-limit [w2]"}, "docker run --ulimit nofile=", fine},
		{"networks of their own", "w1 w2", fine[1:], in, []string{"fail nic-choice [w1 w2]", "fail master-address [w1 w2]"}, "docker run --network=host", fine},
		{"a network of its own for rank 0", "w1", fine[1:], in, []string{"fail master-address [w1]", "warn host-names [w1]", "warn nic-choice [w1]"}, "docker run --network=host", fine},
		{"a network of its own", "w2", fine[1:], in, []string{"warn host-names [w2]", "warn nic-choice [w2]"}, "docker run --network=host", fine},
		{"a user", "w2", append(fine, "--user=1000", "--volume=/root/.local:/home/train/.local:ro"), in, []string{"warn disk-space [w2]"}, "give the user who launches write access", fine},
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
			for _, f := range report.Findings {
				if ways := strings.Join(slices.Concat(f.Fix, f.Notes), "\n"); !strings.Contains(ways, test.fix) {
					t.Errorf("no fix of %s has %q: %s", f.Check, test.fix, ways)
				}
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

	t.Run("the nodes themselves", func(t *testing.T) {
		const python = "--python=" + testhosts.ImagePython
		for _, n := range cluster.Nodes {
			container(t, n.Name, append(fine, "--volume=/usr/bin/python3:"+testhosts.ImagePython+":ro"))
		}
		report := judge(t, []string{python})
		if diff := cmp.Diff([]string{"fail python-same [w1 w2]", "warn runs-inside [w1 w2]"}, short(report.Findings)); diff != "" {
			t.Fatalf("findings (-want +got)\n%s", diff)
		}
		// Docker's processes show only the container's ID, which differs between the nodes.
		if fix := report.Findings[1].Fix[0]; !strings.Contains(fix, "preflight -H /root/hostfile --in '"+intoDocker+"' ") {
			t.Errorf("the fix does not name the container: %s", fix)
		}
		if report := judge(t, append(in, python)); report.ExitCode != 0 || len(report.Findings) > 0 {
			t.Errorf("with --in: exit code %d, findings %+v", report.ExitCode, report.Findings)
		}
	})
	t.Run("no subnet left", func(t *testing.T) {
		plantOn(t, cluster, "w1", func(n *testhosts.Node) (testhosts.Undo, error) {
			_, err := n.Run(t.Context(), "sh", "-c", "for i in $(seq 40); do docker network create n$i || exit 0; done; exit 1")
			return func() error { return nil }, err
		})
		only := []string{"--only", "container-networks"}
		report := judge(t, only)
		if diff := cmp.Diff([]string{"warn container-networks [w1]"}, short(report.Findings)); diff != "" {
			t.Fatalf("findings (-want +got)\n%s", diff)
		}
		paste(t, cluster, report.Findings[0])
		if report := judge(t, only); len(report.Findings) > 0 {
			t.Errorf("after the fix: %+v", report.Findings)
		}
	})
	t.Run("an overlay network", func(t *testing.T) {
		run := func(node *testhosts.Node, command string) string {
			t.Helper()
			out, err := node.Run(t.Context(), "sh", "-c", command)
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(out)
		}
		first, second := cluster.Nodes[0], cluster.Nodes[1]
		run(first, "docker swarm init --advertise-addr "+first.Address)
		run(second, "docker swarm join --token "+run(first, "docker swarm join-token -q worker")+" "+first.Address+":2377")
		run(first, "docker network create --driver overlay services")
		log := run(first, "docker run --rm --network services train true 2>&1 && exit 1; exit 0")
		explain := cluster.OnHead(t.Context(), binary(t), "explain", "--format", "json", "-")
		explain.Stdin = strings.NewReader(log)
		const again = "docker network rm services; docker network create --driver overlay --attachable services"
		if out, _ := explain.Output(); !strings.Contains(string(out), again) {
			t.Errorf("explain has no way out of %q: %s", log, out)
		}
		run(first, again)
		for _, n := range cluster.Nodes {
			// Docker waits 20 s for Swarm's manager, which a busy machine may exceed.
			n.Run(t.Context(), "docker", "run", "--rm", "--network=services", "--volume=/usr:/usr:ro", "train", "true")
			container(t, n.Name, []string{"--network=services", "--shm-size=1g", "--hostname=" + n.Name})
		}
		if report := judge(t, in); report.ExitCode != 0 || len(report.Findings) > 0 {
			t.Errorf("exit code %d, findings %+v", report.ExitCode, report.Findings)
		}
	})
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
