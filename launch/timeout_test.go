// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch/dsconfig"
	"preflight/testhosts/launchtest"
)

func TestStartTimeout(t *testing.T) {
	here := &facts.Env{Vars: launchtest.Env("environment", "DEEPSPEED_TIMEOUT=7")}
	for _, c := range []struct {
		name    string
		p       Prediction
		seconds float64
		from    string // the first words of the rule
		traps   []string
	}{
		{"newest", Prediction{}, 600, "DeepSpeed's default since 0.19.6, unless", nil},
		{"since 0.19.6", Prediction{DeepSpeed: "0.19.6"}, 600, "DeepSpeed's default since 0.19.6, unless", nil},
		{"before 0.19.6", Prediction{DeepSpeed: "0.19.5"}, 1800, "DeepSpeed's default, unless", nil},
		{"no variable before 0.11.2", Prediction{DeepSpeed: "0.11.1", Exports: launchtest.Env("/f", "DEEPSPEED_TIMEOUT=5")}, 1800, "DeepSpeed's default", nil},
		{"exported", Prediction{DeepSpeed: "0.11.2", Exports: launchtest.Env("/f", "A=1", "DEEPSPEED_TIMEOUT= 5 ")}, 300, "DEEPSPEED_TIMEOUT from /f", nil},
		{"the environment here is not the nodes'", Prediction{}, 600, "DeepSpeed's default", nil},
		{"but that of local ranks", Prediction{Local: true}, 420, "DEEPSPEED_TIMEOUT from environment", nil},
		{"no number", Prediction{Exports: launchtest.Env("/f", "DEEPSPEED_TIMEOUT=1.5")}, 0, "", []string{"timeout-no-number"}},
		{"no time", Prediction{Exports: launchtest.Env("/f", "DEEPSPEED_TIMEOUT=0")}, 0, "DEEPSPEED_TIMEOUT", []string{"timeout-not-positive"}},
		{"torchrun", Prediction{Rendezvous: RendezvousC10d}, 0, "", nil},
	} {
		seconds, from, notes := startTimeout(c.p, here)
		if seconds != c.seconds || !strings.HasPrefix(from, c.from) || (from == "") != (c.from == "") {
			t.Errorf("%s: %v by %q, want %v by %q", c.name, seconds, from, c.seconds, c.from)
		}
		if diff := cmp.Diff(c.traps, traps(notes)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestOps(t *testing.T) {
	adam := &dsconfig.Config{Ops: []string{"cpu_adam"}}
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
