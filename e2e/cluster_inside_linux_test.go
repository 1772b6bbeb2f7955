// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// TestInside runs preflight with --in, for ranks that run in podman containers. The nodes
// themselves are healthy.
func TestInside(t *testing.T) {
	if err := testhosts.HasPodman(); err != nil {
		t.Skipf("NOT RUN: %s needs podman: %v", t.Name(), err)
	}
	cluster := raiseWith(t, testhosts.Options{Name: "inside"})
	installTorch(t, cluster)
	container := func(name string, options ...string) plant {
		return func(n *testhosts.Node) (testhosts.Undo, error) {
			return n.RunContainer(name+n.Name, append(options, "--volume", "/root/.local:/root/.local:ro")...)
		}
	}
	stop := func(n *testhosts.Node) (testhosts.Undo, error) {
		_, err := n.Run(t.Context(), "podman", "stop", "--time", "0", "train-"+n.Name)
		return func() error {
			_, err := n.Run(t.Context(), "podman", "start", "train-"+n.Name)
			return err
		}, err
	}
	lands := func(n *testhosts.Node) (testhosts.Undo, error) { return n.LandInside("podman", "train-"+n.Name) }
	for _, n := range cluster.Nodes {
		plantOn(t, cluster, n.Name, container("train-"))
	}
	const in = `podman exec -i train-{node}`
	small := []string{"warn shm-size [w1 w2 w3 w4]", "warn open-files-limit [w1 w2 w3 w4]"}
	const policy = "/root/boxes.yaml"
	if err := cluster.Head.WriteFile(policy, []byte("groups:\n  boxes: 'w[1-2]'\nin:\n  '@boxes': "+in+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		plant map[string]plant
		words []string
		want  []string
		fixes string // expected in a fix or a note of one of the findings
		exit  int
	}{
		{"the nodes themselves", nil, nil, []string{}, "", 0},
		{"the nodes, for a python that is inside", nil, []string{"--python", testhosts.ImagePython}, []string{"fail python-same [w1 w2 w3 w4]", "warn runs-inside [w1 w2 w3 w4]"}, "--in 'podman exec -i train-w1'", 1},
		{"inside", nil, []string{"--in", in}, small, "podman run --shm-size=1g", 0},
		{"inside, with its own python", nil, []string{"--in", in, "--python", testhosts.ImagePython}, small, "podman run --ulimit nofile=", 0},
		{"logins that land inside", map[string]plant{"w2": lands, "w4": lands}, nil, []string{"warn shm-size [w2 w4]", "warn open-files-limit [w2 w4]"}, "podman run --shm-size=1g", 0},
		{"some of the nodes", nil, []string{"--config", policy}, []string{"warn shm-size [w1 w2]", "warn open-files-limit [w1 w2]"}, "podman run", 0},
		{"one has ended", map[string]plant{"w3": stop}, []string{"--in", in, "--only", "container-enter"}, []string{"fail container-enter [w3]"}, "ssh -n w3 podman start NAME", 1},
		{"nothing of the name", nil, []string{"--in", "podman exec -i train", "--only", "container-enter"}, []string{"fail container-enter [w1 w2 w3 w4]"}, "podman ps -a", 1},
		{"no engine", nil, []string{"--in", "nerdctl exec -i train", "--only", "container-enter"}, []string{"fail container-enter [w1 w2 w3 w4]"}, "echo $PATH", 1},
		{"-i forgotten", nil, []string{"--in", strings.Replace(in, "-i ", "", 1), "--only", "container-enter"}, []string{"fail container-enter [w1 w2 w3 w4]"}, "podman exec -i train", 1},
		{"-t given", nil, []string{"--in", strings.Replace(in, "-i ", "-it ", 1), "--only", "container-enter"}, []string{"fail container-enter [w1 w2 w3 w4]"}, "without -t", 1},
		{"nothing to write to", map[string]plant{"w2": container("frozen-", "--read-only", "--read-only-tmpfs=false")}, []string{"--in", "podman exec -i frozen-{node}", "--include", "w2", "--force_multi", "--only", "container-enter,agent-start"}, []string{"unknown agent-start [w2]"}, "podman run --tmpfs /tmp:exec", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, plant := range test.plant {
				plantOn(t, cluster, name, plant)
			}
			argv := slices.Concat([]string{binary(t), "-H", testhosts.HostfilePath, "--accelerator", "cpu", "--format", "json", "--skip", "launcher-*"}, test.words)
			report := reported(t, cluster.OnHead(t.Context(), argv...))
			if diff := cmp.Diff(test.want, short(report.Findings)); diff != "" || report.ExitCode != test.exit {
				t.Errorf("exit code %d, want %d; findings (-want +got)\n%s", report.ExitCode, test.exit, diff)
			}
			var fixes []string
			for _, f := range report.Findings {
				fixes = slices.Concat(fixes, f.Fix, f.Notes)
			}
			if !strings.Contains(strings.Join(fixes, "\n"), test.fixes) {
				t.Errorf("no fix has %q: %q; the findings are %+v", test.fixes, fixes, report.Findings)
			}
		})
	}
	out, err := cluster.OnHead(t.Context(), binary(t), "clean", "-H", testhosts.HostfilePath, "--in", in).CombinedOutput()
	for _, n := range cluster.Nodes {
		if err != nil || !strings.Contains(string(out), n.Name+": removed /root/.cache/preflight\n") {
			t.Errorf("clean on %s: %v\n%s", n.Name, err, out)
		}
	}
}
