package checks

import (
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

var deepspeedOps = Check{
	ID:       "deepspeed-ops",
	Title:    "every node can compile the ops of DeepSpeed that the launch needs",
	Severity: Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionToolchain},
	Doc: "DeepSpeed compiles an op when it is first needed, on every node that does not share its cache, unless the installed package brings it: " +
		"fused_adam for Adam, cpu_adam for an offloaded optimizer, async_io for NVMe, and on the CPU accelerator deepspeed_shm_comm for its collectives. That takes a C++ compiler, Python's headers, ninja in PATH of a session " +
		"without login and, for all but a few, the CUDA toolkit in the version torch was built with. " +
		"A lock that an interrupted build left behind makes the next one wait without end.",
	WouldSee: "RuntimeError: Error building extension 'fused_adam'",
	Run:      judgeOps,
}

func judgeOps(view View) []Finding {
	needed := view.Launch.Ops()
	if len(needed) == 0 {
		return skip("the launch needs no op of DeepSpeed compiled")
	}
	var findings []Finding
	compiled := false
	for _, node := range view.Nodes {
		ops := slices.DeleteFunc(slices.Clone(needed), func(op string) bool { return node.Python != nil && node.Python.Ops[op] })
		if len(ops) == 0 {
			continue
		}
		compiled = true
		tools := newOpTools(view, node, ops)
		found := slices.Concat(tools.compiler(), tools.toolkit(), tools.lock())
		if slices.Equal(ops, []string{launch.CommOp}) {
			for i := range found { // a script that calls torch alone needs none of it
				found[i].Verdict = Warn
			}
		}
		findings = append(findings, found...)
	}
	if !compiled {
		return skip("the installed deepspeed brings every op it needs compiled: " + strings.Join(needed, ", "))
	}
	return findings
}

// needsCUDA are the ops that a GPU's DeepSpeed links with the CUDA toolkit: all
// but a few. On the CPU accelerator none does.
//
// Source: deepspeed/op_builder/, cpu_adam.py and its like until 0.19.8.
func needsCUDA(view View, ops []string) []string {
	if view.Launch.Accelerator == "cpu" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ops), func(op string) bool {
		return op == "utils" || strings.HasPrefix(op, "cpu_") && !launch.Before(view.Launch.DeepSpeed, "0.19.8")
	})
}
