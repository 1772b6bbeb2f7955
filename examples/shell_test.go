// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// scripts returns the example files that start with #!.
func scripts(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasPrefix(string(text), "#!") {
			all = append(all, path)
		}
		return err
	})
	if err != nil || len(all) < 4 {
		t.Fatalf("%q, %v", all, err)
	}
	return all
}

func TestScriptsParse(t *testing.T) {
	for _, script := range scripts(t) {
		if out, err := exec.Command("sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

func TestShellcheck(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("NOT RUN: shellcheck over the examples, because it is not installed: sh testhosts/apt.sh installs it")
	}
	if out, err := exec.Command("shellcheck", append([]string{"-x"}, scripts(t)...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// absolute returns the absolute path of an example, because examples run in another directory.
func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSlurmHooks checks which nodes the hooks drain, and whether the job continues.
func TestSlurmHooks(t *testing.T) {
	drains := func(when, nodes string) string {
		return `scontrol update NodeName=` + nodes + ` State=DRAIN Reason=preflight ` + when + ` job 7: see the controller's syslog`
	}
	oneBad := fleet{nodes: "w8"} // a job on one node whose driver fails
	for name, c := range map[string]struct {
		script  string
		fleet   fleet
		code    int
		said    string // text that one of the recorded commands must contain
		drained string
	}{
		// w5 is not drained, because its only problem is a host key that this machine does not
		// know.
		"prolog, faults":   {"prolog.sh", faulty, 1, "gpu-driver-loads", drains("before", "w6,w8")},
		"prolog, one node": {"prolog.sh", oneBad, 1, "gpu-driver-loads", drains("before", "w8")},
		"prolog, none":     {"prolog.sh", healthy, 0, "", ""},
		"prolog, nobody":   {"prolog.sh", dark, 0, "none of w[1-8] was reached: no node is drained", ""},
		"epilog, faults":   {"epilog.sh", faulty, 0, "gpu-driver-loads", drains("after", "w8")},
		"epilog, none":     {"epilog.sh", healthy, 0, "", ""},
		"epilog, unknown":  {"epilog.sh", dark, 0, "UNKNOWN", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, c.fleet)
			d.env["SLURM_JOB_ID"], d.env["SLURM_JOB_NODELIST"] = "7", "w[1-8]"
			delete(d.env, "PREFLIGHT_ONLY") // the script itself selects the checks
			out, code := d.run(t, absolute(t, "slurm/"+c.script))
			calls := d.called(t)
			if code != c.code || out != "" {
				t.Errorf("exit code %d, want %d; it printed %q", code, c.code, out)
			}
			if !strings.Contains(calls, c.said) || c.said == "" && calls != "" {
				t.Errorf("%q is not in the calls: %s", c.said, calls)
			}
			if drained := strings.Contains(calls, "scontrol"); drained != (c.drained != "") || drained && !strings.Contains(calls, c.drained+"\n") {
				t.Errorf("want %q, called: %s", c.drained, calls)
			}
		})
	}
}

// TestPrologThatMayNotDrain checks that the job starts if the nodes cannot be drained. Otherwise
// Slurm would requeue the job on the same nodes again and again.
func TestPrologThatMayNotDrain(t *testing.T) {
	d := newDesk(t, faulty)
	d.env["SLURM_JOB_ID"], d.env["SLURM_JOB_NODELIST"], d.env["STAND_IN_REFUSES"] = "7", "w[1-8]", "scontrol"
	if _, code := d.run(t, absolute(t, "slurm/prolog.sh")); code != 0 || !strings.Contains(d.called(t), "w6,w8 could not be drained: scontrol may not") {
		t.Errorf("exit code %d, called: %s", code, d.called(t))
	}
}

// TestHooksOfAStrictUser checks that a warning drains no node, even if the policy of SlurmUser has
// strict: true.
func TestHooksOfAStrictUser(t *testing.T) {
	for _, script := range []string{"prolog.sh", "epilog.sh"} {
		d := newDesk(t, fleet{nodes: "w7,w8"})
		d.env["SLURM_JOB_ID"], d.env["SLURM_JOB_NODELIST"] = "7", "w[7-8]"
		config := filepath.Join(d.dir, ".config/preflight/preflight.yaml")
		policy := "strict: true\nseverity: [{check: gpu-driver-loads, severity: warning}]\n"
		if err := errors.Join(os.MkdirAll(filepath.Dir(config), 0o755), os.WriteFile(config, []byte(policy), 0o600)); err != nil {
			t.Fatal(err)
		}
		out, code := d.run(t, absolute(t, "slurm/"+script))
		if calls := d.called(t); code != 0 || out != "" || !strings.Contains(calls, "gpu-driver-loads") || strings.Contains(calls, "scontrol") {
			t.Errorf("%s: exit code %d, printed %q, called: %s", script, code, out, calls)
		}
	}
}

// TestCleanSHM runs the Epilog script of a node with a private /dev/shm.
func TestCleanSHM(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("NOT RUN: clean-shm.sh, because it removes other users' files, which takes root on Linux")
	}
	const user = "61234" // a user ID that nobody has
	script := absolute(t, "slurm/clean-shm.sh")
	for name, c := range map[string]struct{ uid, busy, left string }{
		"the job's user":   {user, "", "others root"},
		"still has a job":  {user, "setpriv --reuid=" + user + " --clear-groups sleep 60 & until pgrep -U " + user + " >/dev/null; do sleep 0.01; done; ", "nccl-a others root sem.d"},
		"a system's user":  {"0", "", "nccl-a others root sem.d"},
		"not told":         {"", "", "nccl-a others root sem.d"},
		"nothing of sense": {"1000 -o -true", "", "nccl-a others root sem.d"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, healthy)
			d.env["SLURM_JOB_UID"] = c.uid
			out, code := d.run(t, "unshare", "--mount", "sh", "-c", `set -e
				mount -t tmpfs none /dev/shm; cd /dev/shm
				mkdir sem.d; touch nccl-a others root sem.d/b
				chown `+user+` nccl-a sem.d sem.d/b; chown 61235 others
				`+c.busy+script+`; ls -x -w 0
				[ -z "$!" ] || { kill "$!"; wait "$!" 2>/dev/null || :; }`)
			if left := strings.Join(strings.Fields(out), " "); code != 0 || left != c.left {
				t.Errorf("exit code %d, left %q, want %q", code, left, c.left)
			}
		})
	}
}

// TestSbatch checks that the script trains on good nodes, or prints why it does not train.
func TestSbatch(t *testing.T) {
	launched := "deepspeed --hostfile preflight-7/good --num_nodes 4 train.py --deepspeed ds.json\n"
	for name, c := range map[string]struct {
		fleet  fleet
		code   int
		said   string
		called string
	}{
		"the spare one is bad": {fleet{nodes: "w1,w2,w3,w4,w6", only: "ssh-reach"}, 0, "ssh-reach", launched},
		"too few":              {fleet{nodes: "w1,w5,w6", only: "ssh-reach,ssh-host-key"}, 1, "train.sbatch: 4 good nodes needed, 1 found; not good: w5 w6", ""},
		"could not tell":       {dark, 2, "train.sbatch: some nodes are unknown", ""},
		"one cannot be told":   {fleet{nodes: "w1,w2,w3,w4,w6", only: "shm-writable"}, 0, "w6", launched},
		"all good":             {fleet{nodes: "w1,w2,w3,w4,w7", only: "ssh-reach"}, 0, "", launched},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, c.fleet)
			d.env["SLURM_JOB_ID"], d.env["SLURM_JOB_NODELIST"], d.env["SLURM_NTASKS_PER_NODE"] = "7", "w[1-5]", "8"
			out, code := d.run(t, "bash", absolute(t, "slurm/train.sbatch"))
			if code != c.code || !strings.Contains(out, c.said) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, c.code, c.said, out)
			}
			if calls := d.called(t); calls != c.called {
				t.Errorf("called %q, want %q", calls, c.called)
			}
			if !strings.Contains(d.wrote(t, "preflight-7/run.json"), `"schema": 1`) {
				t.Error("the run was not kept")
			}
		})
	}
	d := newDesk(t, healthy)
	if out, code := d.run(t, "bash", absolute(t, "slurm/train.sbatch")); code == 0 || !strings.Contains(out, "sbatch train.sbatch") {
		t.Errorf("outside a job: exit code %d\n%s", code, out)
	}
}

// TestSrun checks that the script trains only if all nodes are good.
func TestSrun(t *testing.T) {
	launched := "srun --kill-on-bad-exit torchrun --nnodes 5 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint w1:29500 --rdzv-id 7 train.py\n"
	for name, c := range map[string]struct {
		fleet  fleet
		code   int
		called string
	}{
		"all good": {healthy, 0, launched},
		"one bad":  {fleet{nodes: "w1,w2,w3,w4,w6", only: "ssh-reach"}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, c.fleet)
			d.env["SLURM_JOB_ID"], d.env["SLURM_JOB_NODELIST"], d.env["SLURM_JOB_NUM_NODES"], d.env["SLURMD_NODENAME"] = "7", "w[1-5]", "5", "w1"
			out, code := d.run(t, "bash", absolute(t, "slurm/train-srun.sbatch"))
			if calls := d.called(t); code != c.code || calls != c.called {
				t.Errorf("exit code %d, want %d; called %q, want %q\n%s", code, c.code, calls, c.called, out)
			}
			d.wrote(t, "preflight-7.html")
		})
	}
	d := newDesk(t, healthy)
	if out, code := d.run(t, "bash", absolute(t, "slurm/train-srun.sbatch")); code == 0 || !strings.Contains(out, "sbatch train-srun.sbatch") {
		t.Errorf("outside a job: exit code %d\n%s", code, out)
	}
}

// TestSbatchOptions checks that Slurm supports the options and that the options come before the
// first command. sbatch reads no options after the first command.
func TestSbatchOptions(t *testing.T) {
	known := regexp.MustCompile(`^#SBATCH --(?:job-name=\w+|nodes=\d+|ntasks-per-node=\d+|gpus-per-node=\d+|exclusive)(?:\s+#.*)?$`)
	for _, script := range []string{"slurm/train.sbatch", "slurm/train-srun.sbatch"} {
		t.Run(script, func(t *testing.T) { sbatchOptions(t, script, known) })
	}
}

func sbatchOptions(t *testing.T, script string, known *regexp.Regexp) {
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	options, command := 0, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "#SBATCH"):
			options++
			if command || !known.MatchString(line) {
				t.Errorf("sbatch would not read %q", line)
			}
		case line != "" && !strings.HasPrefix(line, "#"):
			command = true
		}
	}
	if options != 5 {
		t.Errorf("%d options, want 5", options)
	}
}

func TestMakefile(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("NOT RUN: the Makefile, because make is not installed")
	}
	launched := "deepspeed --hostfile hosts train.py --deepspeed ds.json\n"
	for name, c := range map[string]struct {
		target string
		fleet  fleet
		code   int
		called string
	}{
		"good":             {"train", healthy, 0, launched},
		"bad":              {"train", faulty, 2, ""},
		"hosts alone":      {"preflight", healthy, 0, ""},
		"hosts alone, bad": {"preflight", faulty, 2, ""},
	} {
		d := newDesk(t, c.fleet, "hosts")
		out, code := d.run(t, "make", "-f", absolute(t, "make/Makefile"), c.target, "HOSTFILE=hosts")
		if calls := d.called(t); code != c.code || calls != c.called {
			t.Errorf("%s: exit code %d, want %d; called %q, want %q\n%s", name, code, c.code, calls, c.called, out)
		}
	}
}
