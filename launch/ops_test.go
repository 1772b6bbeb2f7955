package launch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOps(t *testing.T) {
	adam := &Config{Ops: []string{"cpu_adam"}}
	for _, c := range []struct {
		name string
		p    Prediction
		want []string
	}{
		{"nothing named", Prediction{Accelerator: "cuda", Script: "train.py"}, nil},
		{"the configuration's", Prediction{Accelerator: "cuda", Script: "train.py", Config: adam}, []string{"cpu_adam"}},
		{"the collectives' too", Prediction{Accelerator: "cpu", Script: "train.py", Config: adam}, []string{"cpu_adam", CommOp}},
		{"not before there was one", Prediction{Accelerator: "cpu", Script: "train.py", DeepSpeed: "0.14.1"}, nil},
		{"no script, no telling", Prediction{Accelerator: "cpu"}, nil},
		{"torchrun's script may be anything", Prediction{Accelerator: "cpu", Script: "train.py", Rendezvous: RendezvousC10d}, nil},
	} {
		if diff := cmp.Diff(c.want, c.p.Ops()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
	if diff := cmp.Diff([]string{"cpu_adam"}, adam.Ops); diff != "" {
		t.Errorf("the configuration was written to\n%s", diff)
	}
}
