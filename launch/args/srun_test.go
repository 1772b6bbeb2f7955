// SPDX-License-Identifier: Apache-2.0

package args

import (
	"strings"
	"testing"

	"preflight/launch"
)

// TestSrun checks where srun's options end, and the notes about what srun starts.
func TestSrun(t *testing.T) {
	const meets = "torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint w1 train.py"
	for _, c := range []struct{ command, note string }{
		{"srun " + meets, ""},
		{"/usr/bin/srun -lN2 --ntasks-per-node=1 --exclusive --cpus-per-task 8 -A team -- " + meets, ""},
		{"srun -K1 -u -J job --export ALL --container-mount-home --container-image nvcr.io/x " + meets, ""},
		{"srun torchrun --nnodes 2 --master_addr w1 train.py", "srun starts the same command on every node, so every node is node 0 of 2 and waits for the others"},
		{"srun torchrun --nnodes 2 --node_rank 1 --master_addr w1 train.py", "srun starts the same command on every node, so every node is node 1 of 2 and waits for the others"},
		{"srun -N1 torchrun --nproc_per_node 8 train.py", ""},
	} {
		got, err := Parse(split(t, c.command), "", bare)
		if err != nil || got.Srun == nil || got.Program != launch.ProgramTorchrun || got.Script != "train.py" {
			t.Errorf("%s: %+v, %v", c.command, got, err)
			continue
		}
		note := ""
		for _, n := range got.Notes {
			note += n.Message
		}
		if note != c.note {
			t.Errorf("%s: note %q, want %q", c.command, note, c.note)
		}
	}
	options := SrunOptions([]string{"srun", "--container-image", "nvcr.io/x", "-N2", "torchrun"})
	if len(options) != 2 || options["--container-image"] != "nvcr.io/x" || options["-N"] != "2" {
		t.Error(options)
	}
	if words := unredirected(strings.Fields("srun -l -o out-%j.log -N 2 --error=err.log -u")); strings.Join(words, " ") != "srun -l -N 2 -u" {
		t.Error(words)
	}
	if SrunOptions([]string{"torchrun", "--nnodes", "2"}) != nil {
		t.Error("torchrun has options of srun")
	}
}
