// SPDX-License-Identifier: Apache-2.0

// Package args reads the command lines of deepspeed, torchrun and accelerate as these
// programs do: Python's argparse with its abbreviations, each program's own options by
// release, and what the programs refuse of them.
//
// It looks at nothing but the words and the [Surroundings] it is handed, and predicts
// nothing: what becomes of the options is for package launch.
package args
