// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"preflight/checks"
	"preflight/launch"
)

// TestNextCommand checks that the next command keeps the typed flags, and puts the launch's flags
// after the "--".
func TestNextCommand(t *testing.T) {
	failed := []checks.Outcome{{Check: "shm-size", Verdict: checks.Fail}, {Check: "gpu-idle", Verdict: checks.Pass}, {Check: "clock-skew", Verdict: checks.Warn}}
	unknown := func(reason string, commands ...string) checks.Report {
		return checks.Report{
			ExitCode: exitTrouble, Checks: []checks.Outcome{{Check: "shm-size", Verdict: checks.Unknown, Reason: reason}},
			Findings: []checks.Finding{{Check: "shm-size", Verdict: checks.Unknown, Summary: reason, Fix: commands}},
		}
	}
	launched := launch.Prediction{HostsFile: "my hosts", Program: launch.ProgramDeepSpeed, DeepSpeed: "0.16.4", Rendezvous: launch.RendezvousDeepSpeed}
	for _, c := range []struct {
		typed  string
		report checks.Report
		want   string // the command without its comment
	}{
		{"-H hostfile", checks.Report{ExitCode: exitFail, Checks: failed}, "preflight -H hostfile --only shm-size"},
		{"-H hostfile --strict", checks.Report{ExitCode: exitFail, Checks: failed, Strict: true}, "preflight -H hostfile --strict --only shm-size,clock-skew"},
		{"-w w[1-2] --only shm-*,gpu-idle", checks.Report{ExitCode: exitFail, Checks: failed}, "preflight -w 'w[1-2]' --only shm-size"},
		{"-H hostfile --skip shm-size", checks.Report{Launch: launched}, "preflight -H hostfile"},
		{"-H hostfile --include w1:0,1@w2 --num-gpus=2 --force_multi --strict", checks.Report{Launch: launched},
			"preflight --strict -- deepspeed --hostfile 'my hosts' --force_multi -i w1:0,1@w2 --num_gpus 2 train.py …"},
		{"-H hostfile --smoke -o json=a -o html=b", checks.Report{Launch: launched}, "preflight -o json=a -o html=b --smoke=auto -- deepspeed --hostfile 'my hosts' train.py …"},
		{"-H hostfile --only ib-*", checks.Report{ExitCode: exitTrouble}, "preflight -H hostfile"},
		{"-H hostfile", unknown("no answer within 5s: a hung mount?"), "preflight -H hostfile --only shm-size"},
		{"-H hostfile", unknown("lost: it did not answer in time"), "preflight -H hostfile --timeout 3m"},
		{"-w w1", unknown("no node has an accelerator, and … (--accelerator cpu)"), "preflight -w w1 --accelerator cpu"},
		{"-w w1", unknown("no node has torch; give the launch command after --, so that …"), "preflight -w w1 -- COMMAND"},
		{"-w w1 -- torchrun train.py", unknown("no answer within 5s"), "preflight -w w1 --only shm-size -- torchrun train.py"},
		{"-H hostfile", unknown("no answer within 5s", "ssh -n w1 df   # shows hung mounts"), "ssh -n w1 df"},
		{"-H hostfile", checks.Report{ExitCode: exitTrouble, Interrupted: true}, "preflight -H hostfile"},
		{"-H hostfile", checks.Report{ExitCode: exitFail, Checks: failed, Interrupted: true}, ""},
		{"-w w1", checks.Report{}, ""},
		{"-H hostfile --rendezvous c10d", checks.Report{Launch: launch.Prediction{HostsFile: "hostfile", Rendezvous: launch.RendezvousC10d}}, ""},
	} {
		cmd := rootCommand()
		if err := cmd.ParseFlags(strings.Fields(c.typed)); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(nextCommand(cmd, c.report), "   # "); got != c.want {
			t.Errorf("after preflight %s\n got %q\nwant %q", c.typed, got, c.want)
		}
	}
}
