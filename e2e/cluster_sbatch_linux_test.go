// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"preflight/testhosts"
	"preflight/testhosts/gpus"
)

// TestSbatch submits the batch scripts of examples/slurm to a real Slurm. They must train on the
// good nodes, or say which nodes are missing.
func TestSbatch(t *testing.T) {
	cluster := raiseBatch(t)
	for _, test := range []struct {
		script, name string
		broken       []string
		exit         string // exit code, as sbatch reports it
		says         []string
	}{
		{"train.sbatch", "all are good", nil, "0:0", []string{"PASS", "started with ['--hostfile', 'preflight-JOB/good', '--num_nodes', '4', 'train.py', '--deepspeed', 'ds.json']"}},
		{"train.sbatch", "one to spare", []string{"w2"}, "0:0", []string{"FAIL  python-same  w2", "started with ["}},
		{"train.sbatch", "too few", []string{"w2", "w5"}, "1:0", []string{"train.sbatch: 4 good nodes needed, 3 found; not good: w2 w5"}},
		{"train-srun.sbatch", "all are good", nil, "0:0", []string{"PASS", "a rank's torchrun: --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint w1:29500 --rdzv-id JOB train.py"}},
		{"train-srun.sbatch", "one is not", []string{"w2"}, "1:0", []string{"FAIL  python-same  w2"}},
	} {
		t.Run(test.script+", "+test.name, func(t *testing.T) {
			for _, name := range test.broken {
				plantOn(t, cluster, name, func(n *testhosts.Node) (testhosts.Undo, error) { return n.Hide("/usr/bin/python3") })
			}
			job, said, exit := runBatch(t, cluster, test.script)
			if exit != test.exit {
				t.Errorf("job %s ended with %s, want %s", job, exit, test.exit)
			}
			for _, words := range test.says {
				if words = strings.ReplaceAll(words, "JOB", job); !strings.Contains(said, words) {
					t.Errorf("it did not say %q", words)
				}
			}
			if started := strings.Contains(said, "started with [") || strings.Contains(said, "a rank's torchrun: "); started != (exit == "0:0") {
				t.Errorf("started: %t", started)
			}
			if t.Failed() {
				t.Log(said)
			}
		})
	}
	t.Run("prolog and epilog", func(t *testing.T) { slurmHooks(t, cluster) })
}

// raiseBatch starts hosts with Slurm, and installs the programs that the job scripts start.
func raiseBatch(t *testing.T) *testhosts.Cluster {
	t.Helper()
	if err := testhosts.HasSlurm(); err != nil {
		t.Skipf("NOT RUN: %s needs a Slurm: %v", t.Name(), err)
	}
	cluster := raiseWith(t, testhosts.Options{Name: "sbatch", Nodes: 5, Slurm: true})
	installDeepSpeed(t, cluster)
	for path, text := range map[string]string{
		"/root/.local/bin/torchrun":         "#!/bin/sh\necho \"a rank's torchrun: $*\"\n",
		testhosts.JobDirectory + "/ds.json": `{"train_micro_batch_size_per_gpu": 1}`,
	} {
		if err := cluster.Put(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}

// runBatch runs one of the example scripts as a job. It returns the job's ID, output and exit code.
func runBatch(t *testing.T, cluster *testhosts.Cluster, script string) (job, said, exit string) {
	t.Helper()
	text, err := os.ReadFile("../examples/slurm/" + script)
	if err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + filepath.Dir(binary(t)) + ":/root/.local/bin:" + os.Getenv("PATH")
	submit := cluster.OnHead(t.Context(), "env", path, "sbatch", "--parsable", "--chdir", testhosts.JobDirectory, "--output", "said", "--open-mode", "truncate")
	submit.Stdin = bytes.NewReader(text)
	out, err := submit.Output()
	if job = strings.TrimSpace(string(out)); err != nil || job == "" {
		t.Fatalf("sbatch: %v: %q", err, out)
	}
	// Slurm remembers a job for a while after its end.
	shown, err := cluster.Head.Run(t.Context(), "sh", "-c", "until scontrol --oneliner show job "+job+" | grep -E 'JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT)'; do sleep 0.1; done")
	if err != nil {
		t.Fatal(err)
	}
	_, exit, _ = strings.Cut(shown, " ExitCode=")
	exit, _, _ = strings.Cut(exit, " ")
	said, err = cluster.Nodes[0].Run(t.Context(), "cat", testhosts.JobDirectory+"/said") // the script runs on the first node
	if err != nil {
		t.Fatal(err)
	}
	return job, said, exit
}

// slurmHooks tests the hooks in examples/slurm. The prolog must drain a node that fails, and put
// the node's job back into the queue. The epilog must drain a node whose GPUs failed during the
// job.
func slurmHooks(t *testing.T, cluster *testhosts.Cluster) {
	addHooks(t, cluster)
	submit := func(command string) (job string) {
		t.Helper()
		out, err := cluster.OnHead(t.Context(), "sbatch", "--parsable", "--nodes", "4", "--output", "/dev/null", "--wrap", command).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	const drained = "sinfo --noheader --Node --states=drain --format='%N %E'"

	plantOn(t, cluster, "w2", (*testhosts.Node).RemoveAuthorizedKey)
	job := submit("true")
	awaitSlurm(t, cluster, drained, "w2 preflight before job "+job+": see the controller's syslog")
	awaitSlurm(t, cluster, "scontrol --oneliner show job "+job, "JobState=PENDING ", " Restarts=1 ")
	if _, err := cluster.Head.Run(t.Context(), "scancel", job); err != nil { // without scancel, Slurm would let the job wait for two minutes
		t.Fatal(err)
	}

	job = submit("until [ -e /root/go ]; do sleep 0.1; done")
	awaitSlurm(t, cluster, "scontrol --oneliner show job "+job, "JobState=RUNNING ", " NodeList=w[1,3-5] ")
	plantOn(t, cluster, "w3", func(n *testhosts.Node) (testhosts.Undo, error) {
		unloaded := gpus.H100s(8)
		unloaded.Module, unloaded.FabricManagerRuns = "", false
		return n.SetDriver(unloaded)
	})
	if err := cluster.Nodes[0].WriteFile("/root/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitSlurm(t, cluster, drained, "w3 preflight after job "+job+": see the controller's syslog")
	awaitSlurm(t, cluster, "scontrol --oneliner show job "+job, "JobState=COMPLETED ")
}

// addHooks configures the prolog and the epilog in slurm.conf, as the first lines of these scripts
// say. slurmctld gives them no PATH, and in this test preflight is in no default directory, so
// addHooks adds a PATH.
func addHooks(t *testing.T, cluster *testhosts.Cluster) {
	t.Helper()
	for name, script := range map[string]string{"nodes": "preflight-nodes.sh", "prolog": "prolog.sh", "epilog": "epilog.sh"} {
		text, err := os.ReadFile("../examples/slurm/" + script)
		if err != nil {
			t.Fatal(err)
		}
		hook := fmt.Sprintf("#!/bin/sh\nPATH=%s:/usr/bin:/bin exec /etc/slurm/preflight-%s.sh\n", filepath.Dir(binary(t)), name)
		if err := errors.Join(cluster.Head.WriteFile("/etc/slurm/preflight-"+name+".sh", text, 0o755), cluster.Head.WriteFile("/etc/slurm/"+name, []byte(hook), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cluster.Head.Run(t.Context(), "sh", "-c", `set -e
		printf 'PrologSlurmctld=/etc/slurm/prolog\nEpilogSlurmctld=/etc/slurm/epilog\n' >>/etc/slurm/slurm.conf
		pid=$(cat /run/slurm/slurmctld.pid); kill "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done; slurmctld -i`); err != nil {
		t.Fatal(err)
	}
}

// awaitSlurm waits until the output of a Slurm command contains the given words.
func awaitSlurm(t *testing.T, cluster *testhosts.Cluster, command string, words ...string) {
	t.Helper()
	limit, enough := context.WithTimeout(t.Context(), time.Minute)
	defer enough()
	var said string
	for limit.Err() == nil {
		said, _ = cluster.Head.Run(limit, "sh", "-c", command) // slurmctld does not answer while it starts
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(said, word) }) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s never printed %q; its last output: %s", command, words, said)
}
