// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"

	"preflight/hostfile"
)

// imports returns the packages that every node imports for the launch, regardless of the script;
// nil if the command is unknown.
//
// Source: torchrun runs torch/distributed/run.py. deepspeed/launcher/launch.py, and
// launcher_helper.py of an MPICH launch since 0.13.2, belong to package deepspeed, whose
// __init__.py imports torch, 0.6.0 to 0.19.8.
func (p Prediction) imports() []string {
	var packages []string
	switch {
	case p.Torchrun():
		packages = []string{"torch"}
	case p.Script == "":
		return nil
	case p.importsDeepSpeed():
		packages = []string{"torch", "deepspeed"}
	case !p.NoPython:
		packages = []string{"torch"}
	}
	if p.Program == ProgramAccelerate && p.Torchrun() { // accelerate itself is started on each node
		packages = append(packages, "accelerate")
	}
	if (p.Config != nil || p.SwiftConfig() != "") && !slices.Contains(packages, "deepspeed") {
		packages = append(packages, "deepspeed")
	}
	return packages
}

// importsDeepSpeed reports whether one of DeepSpeed's own programs starts the script on every node.
func (p Prediction) importsDeepSpeed() bool {
	by := p.StartedBy()
	return p.Local || p.NoSSH || by.LaunchPy || by.helperSince != "" && !hostfile.Before(p.DeepSpeed, by.helperSince)
}

// TypedImports returns the packages that the command imports on the machine where it is typed.
//
// Source: deepspeed/launcher/runner.py imports deepspeed.accelerator, 0.6.0 to 0.19.8;
// accelerate/commands/launch.py imports torch, 1.14.
func (p Prediction) TypedImports() []string {
	switch p.Program {
	case ProgramTorchrun:
		return []string{"torch"}
	case ProgramAccelerate:
		if p.Torchrun() {
			return []string{"accelerate", "torch"}
		}
		return []string{"accelerate", "torch", "deepspeed"}
	}
	return []string{"deepspeed", "torch"}
}

// distributions maps programs that start torchrun, accelerate or deepspeed to their PyPI
// distributions.
var distributions = map[string]string{"llamafactory-cli": "llamafactory", "lmf": "llamafactory", "axolotl": "axolotl", "swift": "ms-swift", "megatron": "ms-swift"}

// Typed returns the program that the user typed and the PyPI distribution that contains it.
func (p Prediction) Typed() (program, distribution string) {
	if of := distributions[p.Framework]; of != "" {
		return p.Framework, of
	}
	return p.Program, p.TypedImports()[0]
}
