// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/testhosts"
)

// standIn returns the files of a stand-in for DeepSpeed in the user's site directory. It has the
// files that programs read without running DeepSpeed. The stand-in prints its arguments and starts
// nothing. make oracle uses the real DeepSpeed.
func standIn(site string) map[string]string {
	files := map[string]string{
		"/root/.local/bin/deepspeed":          "#!/usr/bin/python3\nimport sys\nprint('started with', sys.argv[1:])\n",
		site + "deepspeed/__init__.py":        "",
		site + "deepspeed/launcher/launch.py": "",
		site + "annotated_types.py":           "", // a dependency of pydantic
		site + "pydantic_core.py":             "",
	}
	for _, installed := range []string{"deepspeed 0.19.8", "einops 0.8.1", "hjson 3.1.0", "msgpack 1.1.0", "numpy 2.1.0", "packaging 24.2", "psutil 6.1.0", "pydantic 2.10.0", "tqdm 4.67.0"} {
		name, version, _ := strings.Cut(installed, " ")
		files[site+name+"-"+version+".dist-info/METADATA"] = fmt.Sprintf("Name: %s\nVersion: %s\n", name, version)
	}
	return files
}

// installDeepSpeed gives every machine the stand-in for DeepSpeed, eight GPUs and a torch for them.
func installDeepSpeed(t *testing.T, cluster *testhosts.Cluster) {
	t.Helper()
	site, err := cluster.Nodes[0].Run(t.Context(), "/usr/bin/python3", "-c", "import site; print(site.getusersitepackages())")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range standIn(strings.TrimSpace(site) + "/") {
		if err := cluster.Put(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range cluster.Machines() {
		if _, err := n.SetGPUs(8); err != nil {
			t.Fatal(err)
		}
		if _, err := n.CUDATorch("2.5.1+cu124", "12.4"); err != nil {
			t.Fatal(err)
		}
	}
}

// offloading is a DeepSpeed configuration that needs a compiled op and uses a directory.
const offloading = `{
	"train_micro_batch_size_per_gpu": 1,
	"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
	"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/root/nvme"}}
}`

// launches lists faults that concern the launch itself. Each has the check and the machine of the
// only finding that must result.
var launches = []struct {
	name  string
	plant func(*testhosts.Cluster) (testhosts.Undo, error)
	env   string
	words []string // arguments of deepspeed before the script
	want  []string
}{
	{name: "healthy"},
	{name: "the launching environment wants rsh, which DeepSpeed overrides", env: "PDSH_RCMD_TYPE=rsh"},
	{name: "the directory is missing", plant: on("w3", func(n *testhosts.Node) (testhosts.Undo, error) { return n.Hide(testhosts.JobDirectory) }),
		want: []string{"fail workdir-present [w3]"}},
	{name: "the script differs", plant: on("w3", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.ChangeFile(testhosts.JobDirectory+"/train.py", func(text string) string { return text + "\nprint('another')\n" })
	}), want: []string{"fail script-same [w3]"}},
	{name: "the interpreter is missing", plant: on("w3", func(n *testhosts.Node) (testhosts.Undo, error) { return n.Hide("/usr/bin/python3") }),
		want: []string{"fail python-same [w3]"}},
	{name: "pdsh's modules are somebody else's", plant: on("head", (*testhosts.Node).ForeignPDSH),
		want: []string{"fail launcher-ready [launching machine]"}},
	{name: ".deepspeed_env begins with a comment", plant: on("head", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Configure("/root/.deepspeed_env", "# for the fabric\nNCCL_DEBUG=INFO\n")
	}), want: []string{"fail launcher-env [launching machine]"}},
	{name: ".deepspeed_env has an assignment commented out", plant: on("head", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Configure("/root/.deepspeed_env", "# NCCL_DEBUG=INFO\n")
	}), want: []string{"fail launcher-env [launching machine]"}},
	{name: "fewer GPUs than slots", plant: on("w3", func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetGPUs(4) }),
		want: []string{"fail slots-fit [w3]"}},
	{name: "a single host, and not this one", words: []string{"--include", "w2"},
		want: []string{"fail launcher-args [launching machine]"}},
}

// on returns a fault for one machine.
func on(name string, plant func(*testhosts.Node) (testhosts.Undo, error)) func(*testhosts.Cluster) (testhosts.Undo, error) {
	return func(c *testhosts.Cluster) (testhosts.Undo, error) {
		machine, err := c.Head, error(nil)
		if name != "head" {
			machine, err = c.Node(name)
		}
		if err != nil {
			return nil, err
		}
		return plant(machine)
	}
}

// TestLaunch checks a launch command on real hosts, and then starts it.
func TestLaunch(t *testing.T) {
	cluster := raise(t, "launch")
	installDeepSpeed(t, cluster)
	for _, l := range launches {
		t.Run(l.name, func(t *testing.T) {
			if l.plant != nil {
				undo, err := l.plant(cluster)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := undo(); err != nil {
						t.Error(err)
					}
				}()
			}
			words := slices.Concat([]string{"--hostfile", testhosts.HostfilePath}, l.words, []string{"train.py", "two words"})
			report, started := judgeLaunch(t, cluster, l.env, words...)
			if diff := cmp.Diff(append([]string{}, l.want...), short(report.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			want := ""
			if l.want == nil {
				want = fmt.Sprintf("started with ['%s']\n", strings.Join(words, "', '"))
			}
			if started != want {
				t.Errorf("the launch itself: %q, want %q", started, want)
			}
		})
	}
	t.Run("configuration", func(t *testing.T) { judgeConfig(t, cluster) })
}

// judgeConfig tests that preflight checks the requirements of a configuration on every node.
func judgeConfig(t *testing.T, cluster *testhosts.Cluster) {
	for _, n := range cluster.Nodes[:3] {
		if err := n.WriteFile("/root/nvme/.keep", nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Put(testhosts.JobDirectory+"/ds.json", []byte(offloading), 0o644); err != nil {
		t.Fatal(err)
	}
	report, _ := judgeLaunch(t, cluster, "", "--hostfile", testhosts.HostfilePath, "train.py", "--deepspeed", "ds.json")
	for _, node := range report.Nodes {
		if node.Toolchain == nil || node.Missing["toolchain"] != "" {
			t.Errorf("%s: no compiler was looked for: %s", node.Name, node.Missing["toolchain"])
		}
	}
	findings := slices.DeleteFunc(short(report.Findings), func(f string) bool { return strings.Contains(f, "deepspeed-ops") }) // this finding depends on the machine on which the test runs
	if diff := cmp.Diff([]string{"warn offload-path [w4]"}, findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// judgeLaunch runs preflight with a deepspeed command on the launching machine. It returns the
// report and the output of the launch.
func judgeLaunch(t *testing.T, cluster *testhosts.Cluster, env string, words ...string) (checks.Report, string) {
	t.Helper()
	argv := []string{binary(t), "--accelerator", "cuda", "--timeout", nodeDeadline.String(), "--format", "json", "--", "/root/.local/bin/deepspeed"}
	cmd := cluster.OnHead(t.Context(), append(argv, words...)...)
	cmd.Dir = testhosts.JobDirectory
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	out, err := cmd.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	var report checks.Report
	if err := decoder.Decode(&report); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if wantCode := report.ExitCode; ended != nil && ended.ExitCode() != wantCode {
		t.Errorf("exit code %d, the report says %d", ended.ExitCode(), wantCode)
	}
	return report, strings.TrimPrefix(string(out[decoder.InputOffset():]), "\n")
}
