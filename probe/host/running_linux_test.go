// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// TestRunning checks that each container is listed once, with its engine and the parts of
// the launch that it has. Containers of pods must not be listed. Of Python's processes, only those
// of DeepSpeed's launcher are listed, with their script and without arguments that may be secret.
func TestRunning(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for pid, process := range map[string]struct{ comm, line, child string }{
		"2":  {"kthreadd", "", "90 91"},
		"90": {"kworker/0:0", "", ""},
		// The kernel starts no monitors. Its threads are not read at all, because it has thousands.
		"91": {"conmon", "/usr/bin/conmon\x00-n\x00kernel\x00--exit-command\x00/usr/bin/podman\x00", ""},
		"10": {"bash", "bash\x00-n\x00no", ""},
		"20": {"conmon", "/usr/bin/conmon\x00-c\x0090fe\x00-n\x00train\x00--exit-command\x00/usr/bin/podman\x00", "21"},
		"22": {"conmon", "/usr/bin/conmon\x00-c\x0090fe\x00-n\x00train\x00--exit-command\x00/usr/bin/podman\x00", "23"}, // this process is the monitor of an exec
		"30": {"containerd-shim", "/usr/bin/containerd-shim-runc-v2\x00-namespace\x00moby\x00-id\x004f1d6c0a9b3e77\x00", "31"},
		"40": {"containerd-shim", "/usr/bin/containerd-shim-runc-v2\x00-namespace\x00k8s.io\x00-id\x00af1d6c0a9b3e77\x00", "41"},
		"50": {"containerd-shim", "/usr/bin/containerd-shim-runc-v2\x00-namespace\x00default\x00-id\x00bf1d6c0a9b3e77\x00", ""},
		"70": {"python3.11", "/opt/venv/bin/python\x00-u\x00-m\x00deepspeed.launcher.launch\x00--world_info=e30=\x00--node_rank=0\x00--master_addr=10.0.0.1\x00train.py\x00--token\x00secret\x00", ""},
		"80": {"firewalld", "/usr/bin/python3\x00-s\x00/usr/sbin/firewalld\x00", ""},
		"71": {"python3.11", "/opt/venv/bin/python\x00-u\x00train.py\x00deepspeed.launcher.launch\x00", ""},
		"60": {"conmon", "/usr/bin/conmon\x00-n\x00k8s_x\x00--exit-dir\x00/var/run/crio\x00", "61"},
	} {
		write("proc/"+pid+"/comm", process.comm+"\n")
		write("proc/"+pid+"/cmdline", process.line)
		write("proc/"+pid+"/task/"+pid+"/children", process.child+" ")
	}
	write("proc/21/root/opt/conda/bin/python", "")
	write("proc/21/root/opt/conda/lib/python3.11/site-packages/torch/version.py", "")
	write("proc/31/root/work/job/train.py", "")
	// Only containers that may be those of the ranks are worth a question. nerdctl does not answer.
	engines := filepath.Dir(probetest.Script(t, "docker", `[ "$*" = "inspect --type container --format {{.Name}} 4f1d6c0a9b3e" ] && echo /train`))
	t.Setenv("PATH", engines+":/usr/bin:/bin")
	got, launches, hasFirewalld := running(t.Context(), machine.Options{Root: root, Interpreter: "/opt/conda/bin/python", WorkDir: "/work/job"})
	want := []facts.RunningContainer{
		{Engine: "podman", Name: "train", Interpreter: true, Torch: true},
		{Engine: "docker", Name: "train", WorkDir: true},
		{Engine: "nerdctl", Name: "bf1d6c0a9b3e", Unseen: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !hasFirewalld {
		t.Error("firewalld runs, and is not seen")
	}
	own := machine.Owner(machine.Options{Root: root}, os.Getuid())
	if diff := cmp.Diff([]facts.RunningLaunch{{PID: 70, User: own, Interpreter: "/opt/venv/bin/python", Script: "train.py"}}, launches); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
