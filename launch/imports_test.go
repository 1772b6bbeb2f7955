// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"

	"preflight/launch/dsconfig"
)

func TestImports(t *testing.T) {
	const all = "torch deepspeed"
	for _, c := range []struct {
		name string
		p    Prediction
		want string
	}{
		{"no command", Prediction{Launcher: "pdsh"}, ""},
		{"deepspeed by pdsh", Prediction{Launcher: "pdsh", Script: "train.py"}, all},
		{"a program by pdsh", Prediction{Launcher: "pdsh", Script: "./train", NoPython: true}, all},
		{"deepspeed on one host", Prediction{Launcher: "openmpi", Local: true, Script: "train.py"}, all},
		{"deepspeed by hand", Prediction{NoSSH: true, Script: "train.py"}, all},
		{"mpirun", Prediction{Launcher: "openmpi", Script: "train.py"}, "torch"},
		{"mpirun of a program", Prediction{Launcher: "openmpi", Script: "./train", NoPython: true}, ""},
		{"srun of what takes a configuration", Prediction{Launcher: "slurm", Script: "train.py", Config: &dsconfig.Config{}}, all},
		{"MPICH's, by a helper", Prediction{Launcher: "mpich", Script: "train.py", DeepSpeed: "0.13.2"}, all},
		{"MPICH's, before there was one", Prediction{Launcher: "mpich", Script: "train.py", DeepSpeed: "0.13.1"}, "torch"},
		{"torchrun", Prediction{Rendezvous: RendezvousC10d, Script: "train.py"}, "torch"},
		{"accelerate, torchrun's", Prediction{Program: ProgramAccelerate, Rendezvous: RendezvousStatic, Script: "train.py"}, "torch accelerate"},
		{"accelerate by deepspeed's pdsh", Prediction{Program: ProgramAccelerate, Launcher: "pdsh", Script: "train.py"}, all},
		{"torchrun without a command", Prediction{Rendezvous: RendezvousStatic}, "torch"},
		{"torchrun of what takes a configuration", Prediction{Rendezvous: RendezvousC10d, Script: "train.py", Config: &dsconfig.Config{}}, all},
		{"ms-swift with its own configuration", Prediction{Rendezvous: RendezvousStatic, Script: "swift.cli.sft", Arguments: []string{"--deepspeed", "zero3"}}, all},
		{"a script with a word of that name", Prediction{Rendezvous: RendezvousStatic, Script: "train.py", Arguments: []string{"--deepspeed", "zero3"}}, "torch"},
	} {
		if got := strings.Join(c.p.imports(), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
