// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"
	"testing"

	"preflight/hostfile"
)

func TestSlurmCommand(t *testing.T) {
	const (
		exports = "--export=ALL,NCCL_DEBUG=INFO,PYTHONPATH=/job | "
		end     = exports + "/py | -u | train.py | --lr | 1"
	)
	three := func(o *Options) { o.Hosts = hosts(2, 2, 2) }
	included := func(o *Options) { three(o); o.Filter.Include = "w1:0,1@w3:0,1" }
	excluded := func(o *Options) { three(o); o.Filter.Exclude = "w2" }
	limited := func(o *Options) {
		three(o)
		o.Filter.NumNodes.Given, o.Filter.NumNodes.N = true, 2
		o.Filter.NumGPUs.N = 1
	}
	testCommands(t, []commandCase{
		{"newest", "", "slurm", three, "srun | -n | 6 | " + end},
		{"its arguments", "0.8.1", "SLURM", func(o *Options) { o.LauncherArgs = "-p gpu" }, "srun | -n | 4 | -p | gpu | " + end},
		{"forgotten", "0.8.0", "slurm", func(o *Options) { o.LauncherArgs = "-p gpu" }, "srun | -n | 4 | " + end},
		{"hosts named", "", "slurm", included, "srun | -n | 4 | --nodelist | w1,w3 | --nodes | 2 | " + end},
		{"hosts left", "0.19.7", "slurm", excluded, "srun | -n | 4 | --nodelist | w1,w3 | --nodes | 2 | " + end},
		{"limits", "", "slurm", limited, "srun | -n | 2 | --nodes | 2 | --gpus-per-node | 1 | " + end},
		{"the filter as it is", "0.19.6", "slurm", included, "srun | -n | 6 | --include | w1:0,1@w3:0,1 | " + end},
		{"what it leaves out", "0.19.6", "slurm", excluded, "srun | -n | 6 | --exclude | w2 | " + end},
		{"limits of all", "0.19.6", "slurm", limited, "srun | -n | 6 | --nodes | 2 | --gpus | 1 | " + end},
		{"always python", "", "slurm", func(o *Options) { o.NoPython = true }, "srun | -n | 4 | " + end},
	})
}

// TestSlurmJob: if the job has exactly the hosts of the hostfile, in any order, srun has no choice.
// Rank 0 is then on the job's first node.
func TestSlurmJob(t *testing.T) {
	all, two, named := hostfile.Filter{}, hostfile.Filter{NumNodes: hostfile.AtMost(2)}, hostfile.Filter{Include: "w1@w2.lab"}
	for _, c := range []struct {
		name, release, job string
		filter             hostfile.Filter
		want               string
		noted              bool
	}{
		{"outside of a job", "", "", all, "w2.lab,w1,w3", true},
		{"the hosts", "", "w[1-3]", all, "w1,w2.lab,w3", false},
		{"and more", "", "w[1-4]", all, "w2.lab,w1,w3", true},
		{"not all of them", "", "w[1-2]", all, "w2.lab,w1,w3", true},
		{"fewer are asked for", "", "w[1-3]", two, "w2.lab,w1", true},
		{"hosts named", "", "w[1-4]", named, "w1,w2.lab", false},
		{"hosts named as srun takes none", "0.19.6", "w[1-4]", hostfile.Filter{Exclude: "w2.lab"}, "w1,w3", false},
		{"a list that is none", "", "w[", all, "w2.lab,w1,w3", true},
	} {
		o := job("slurm", func(o *Options) { o.Hosts, o.Filter, o.DeepSpeed = hosts(2, 2, 2), c.filter, c.release })
		o.Hosts[0].Name, o.Hosts[1].Name = "w2.lab", "w1"
		p, err := Predict(o, seen("SLURM_JOB_NODELIST="+c.job))
		noted := slices.ContainsFunc(p.Notes, func(n hostfile.Note) bool { return n.ID == "hostfile-ignored" })
		if got := strings.Join(HostNames(p.Hosts), ","); err != nil || got != c.want || noted != c.noted {
			t.Errorf("%s: %s, noted: %v, %v; want %s, %v", c.name, got, noted, err, c.want, c.noted)
		}
	}
}

// TestSlurmRanks: the prediction has as many ranks as DeepSpeed requests from srun.
func TestSlurmRanks(t *testing.T) {
	limited := hostfile.Filter{NumNodes: hostfile.AtMost(1), ForceMulti: true}
	for _, c := range []struct {
		name, release, launcher string
		filter                  hostfile.Filter
		world, ranks            int
	}{
		{"what the filter leaves", "0.19.7", "slurm", limited, 2, 2},
		{"the whole hostfile", "0.19.6", "slurm", limited, 4, 0},
		{"the whole hostfile, hosts named", "0.7.4", "slurm", hostfile.Filter{Include: "w1:0@w2:0"}, 4, 0},
		{"nothing left out", "0.19.6", "slurm", hostfile.Filter{NumNodes: hostfile.AtMost(2)}, 4, 4},
		{"here", "0.19.6", "slurm", hostfile.Filter{NumNodes: hostfile.AtMost(1)}, 2, 2},
		{"another launcher", "0.19.6", "pdsh", limited, 2, 2},
	} {
		o := job(c.launcher, func(o *Options) { o.Filter, o.DeepSpeed = c.filter, c.release })
		p, err := Predict(o, nil)
		if err != nil || p.WorldSize() != c.world || len(p.Ranks()) != c.ranks {
			t.Errorf("%s: %d ranks, of which %d are placed, %v; want %d and %d", c.name, p.WorldSize(), len(p.Ranks()), err, c.world, c.ranks)
		}
	}
}
