package launch

import (
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

// As many ranks are foreseen as srun is asked for.
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
