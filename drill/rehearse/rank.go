// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"strings"
)

//go:embed rank.py
var rankScript string

// Parameters are what one rank of a rehearsal has to do.
type Parameters struct {
	ID      string  `json:"id"`      // marks this run
	Seconds float64 `json:"seconds"` // after which the rank ends itself
	Script  string  `json:"script"`  // path of the user's script as typed, "" if there is none
	// Module is the module that the launch runs with -m, "" if it runs a script.
	Module  string `json:"module"`
	Backend string `json:"backend"` // of the process group; "" for that of the accelerator, or gloo without one
	GPU     bool   `json:"gpu"`     // whether a rank without a GPU fails
	// DeepSpeed means that the training has a DeepSpeed configuration. The ranks then join with
	// deepspeed.init_distributed, as they also do if the training imports deepspeed.
	DeepSpeed bool `json:"deepspeed"`
	// MPI takes the rank's numbers from the variables of Open MPI, MPICH or Slurm where they are unset.
	MPI         bool     `json:"mpi"`
	Directories []string `json:"directories"` // absolute; the rank writes and removes a file in each
	Outputs     []string `json:"outputs"`     // absolute; the same for those that exist
	Bytes       int64    `json:"bytes"`       // size of the large all-reduce, 0 for 64 MiB
}

// Script returns the Python script of a rank. It goes into a file of its own directory on each
// node, and appends what happens as lines of JSON to a file next to it, rank-PID.
func Script(p Parameters) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // only if Seconds is not a number
	}
	return strings.Replace(rankScript, "@PARAMETERS@", hex.EncodeToString(text), 1)
}
