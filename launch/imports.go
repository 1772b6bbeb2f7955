// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"

	"preflight/hostfile"
)

// imports are the packages that every node imports for the launch, whatever the script is
// that it starts; nil where no command says what is started.
//
// Source: torch/distributed/run.py is what torchrun runs. deepspeed/launcher/launch.py, and
// launcher_helper.py of an MPICH launch since 0.13.2, are of package deepspeed, whose
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
	if p.Program == ProgramAccelerate && p.Torchrun() { // it is typed on each
		packages = append(packages, "accelerate")
	}
	if (p.Config != nil || p.SwiftConfig() != "") && !slices.Contains(packages, "deepspeed") {
		packages = append(packages, "deepspeed")
	}
	return packages
}

// importsDeepSpeed is whether a part of DeepSpeed starts the script on every node.
func (p Prediction) importsDeepSpeed() bool {
	by := p.StartedBy()
	return p.Local || p.NoSSH || by.LaunchPy || by.helperSince != "" && !hostfile.Before(p.DeepSpeed, by.helperSince)
}

// TypedImports are the packages that the command imports on the machine it is typed on.
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

// distributions are those on PyPI that programs come with which start torchrun, accelerate or deepspeed.
var distributions = map[string]string{"llamafactory-cli": "llamafactory", "lmf": "llamafactory", "axolotl": "axolotl", "swift": "ms-swift", "megatron": "ms-swift"}

// Typed is what the command begins with, and the distribution on PyPI that it comes with.
func (p Prediction) Typed() (program, distribution string) {
	if of := distributions[p.Framework]; of != "" {
		return p.Framework, of
	}
	return p.Program, p.TypedImports()[0]
}
