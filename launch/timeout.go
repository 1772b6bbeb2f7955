// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strconv"

	"preflight/facts"
	"preflight/hostfile"
)

// timeoutVariable names the variable that sets how long the ranks wait for each other, in whole
// minutes.
const timeoutVariable = "DEEPSPEED_TIMEOUT"

// startTimeout returns how long the ranks wait for each other at the start, in seconds, and the
// rule that sets this time. The rule is DEEPSPEED_TIMEOUT as the ranks see it, if the launch sets
// it, otherwise DeepSpeed's default. startTimeout returns 0 and "" for torchrun, whose scripts
// choose the timeout. The note is about a value with which every rank fails.
//
// Source: deepspeed/constants.py, default_pg_timeout, v0.6.0 to 0.19.8.
func startTimeout(p Prediction, here *facts.Env) (seconds float64, from string, notes []hostfile.Note) {
	const minute = 60
	switch {
	case p.Torchrun():
		return 0, "", nil
	case hostfile.Before(p.DeepSpeed, "0.11.2"):
		return 30 * minute, "DeepSpeed's default", nil
	}
	seen := p.Exports
	if p.Local && here != nil {
		seen = here.Vars
	}
	for _, s := range seen {
		if s.Name != timeoutVariable {
			continue
		}
		digits, _ := hostfile.PythonInt(s.Value)
		minutes, err := strconv.Atoi(digits)
		if err != nil {
			return 0, "", []hostfile.Note{note("timeout-no-number", "%s=%s (%s) is not a whole number of minutes, so every process that imports deepspeed fails (ValueError: invalid literal for int() with base 10: %s): use a number, like 30",
				timeoutVariable, s.Value, s.Source, hostfile.PythonRepr(s.Value))}
		}
		if minutes <= 0 {
			notes = []hostfile.Note{note("timeout-not-positive", "%s=%s (%s) leaves the ranks no time for the rendezvous: give the minutes, like 30", timeoutVariable, s.Value, s.Source)}
		}
		return max(0, float64(minutes)*minute), timeoutVariable + " from " + s.Source, notes
	}
	if hostfile.Before(p.DeepSpeed, "0.19.6") {
		return 30 * minute, "DeepSpeed's default, unless the nodes set " + timeoutVariable, nil
	}
	return 10 * minute, "DeepSpeed's default since 0.19.6, unless the nodes set " + timeoutVariable, nil
}
