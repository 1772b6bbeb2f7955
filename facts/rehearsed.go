// SPDX-License-Identifier: Apache-2.0

package facts

// Rehearsed holds what a rehearsal of the launch showed on one machine. In a rehearsal, the user's
// own launcher runs with a stand-in script in place of the training.
type Rehearsed struct {
	// Refused says why the launch was not rehearsed. Only the launching machine has it.
	Refused string `json:"refused,omitempty" fact:"own"`
	// Undelivered says why the node did not get the stand-in script.
	Undelivered string `json:"undelivered,omitempty" fact:"own"`
	// Program is the launcher that preflight started on this machine. It is nil if preflight
	// started none there.
	Program *RehearsedProgram `json:"program,omitempty" fact:"own"`
	Ranks   []RehearsedRank   `json:"ranks" fact:"own"`
	// Ending lists the rehearsal's processes that were still alive when preflight ended them.
	Ending []string `json:"ending,omitempty" fact:"own"`
	// Left lists files and processes of the rehearsal that could not be removed.
	Left []string `json:"left,omitempty" fact:"own"`
	// Causes holds what the output of all launchers and ranks shows. Only the launching machine has
	// it.
	Causes []RehearsedCause `json:"causes,omitempty" fact:"own"`
}

// RehearsedProgram is a launcher that preflight started for the rehearsal.
type RehearsedProgram struct {
	Command  []string `json:"command"`
	ExitCode int      `json:"exit_code"` // -1 if a signal ended the program, or if it could not be started
	// Problem says why there is no exit code, "" if there is one.
	Problem string  `json:"problem,omitempty"`
	Seconds float64 `json:"seconds" fact:"volatile" unit:"s"` // how long it ran
	Output  string  `json:"output,omitempty"`                 // stdout and stderr; the middle of a long text is left out
}

// RehearsedRank is one process of the stand-in script.
type RehearsedRank struct {
	Rank  int `json:"rank"` // -1 if the launcher gave the process no rank
	Local int `json:"local_rank"`
	PID   int `json:"pid" fact:"volatile"`
	// Stage is the last stage that the rank began, one of the Stage constants.
	Stage string `json:"stage"`
	// Seconds maps each completed stage to its duration.
	Seconds map[string]float64 `json:"seconds" fact:"volatile" unit:"s"`
	// End is how the rank ended: one of the End constants, "" if it was ended by the rehearsal
	// without a word.
	End string `json:"end,omitempty"`
	// At is when the rank failed or ended, counted from the start of the rehearsal on the launching
	// machine. It is 0 for a rank that did neither.
	At      float64           `json:"at,omitempty" fact:"volatile" unit:"s"`
	Error   string            `json:"error,omitempty"`   // the exception of a rank that failed
	Detail  string            `json:"detail,omitempty"`  // where it failed: a line of the script, a directory
	Trace   string            `json:"trace,omitempty"`   // the stack of that exception, or all stacks at the time limit
	Stalled []RehearsedSocket `json:"stalled,omitempty"` // the connections that had no answer when the rank made no progress
	// Idle means that the rank made no progress although no connection waited for an answer.
	Idle bool `json:"idle,omitempty"`
	// Building is what the rank was compiling when the rehearsal ended, "" for nothing.
	Building string `json:"building,omitempty"`
	// Unwritten is the directory of the launch in which a rank other than 0 could not write, with the
	// system's message. It is "" if the rank could write, and if it did not come so far.
	Unwritten string   `json:"unwritten,omitempty"`
	Unknown   []string `json:"unknown,omitempty"` // what the rank could not decide
}

// RehearsedSocket is a connection of a rank to which the other end does not answer.
type RehearsedSocket struct {
	State  string `json:"state"` // connecting, or unacknowledged
	Bytes  int    `json:"bytes,omitempty" fact:"volatile"`
	Local  string `json:"local" fact:"volatile"`
	Remote string `json:"remote" fact:"volatile"`
}

// RehearsedCause is a cause that package explain found in the output.
type RehearsedCause struct {
	Cause   string   `json:"cause,omitempty"` // ID in explain/causes.yaml, "" for an exception without a known cause
	Check   string   `json:"check,omitempty"` // the check that finds the cause before a launch
	Summary string   `json:"summary"`
	Nodes   []string `json:"nodes,omitempty"`
	Fix     []string `json:"fix,omitempty"`
}

// These are the stages of the stand-in script that other code refers to, in their order.
const (
	StageImport = "import"
	StageMeet   = "meet"
	StageLoader = "loader"
)

// These are the ways in which a rank of a rehearsal ends.
const (
	EndFinished   = "finished"
	EndFailed     = "failed"
	EndDeadline   = "deadline"   // its own time limit
	EndTerminated = "terminated" // SIGTERM, from its launcher
	EndAbandoned  = "abandoned"  // its launcher or the rehearsal was gone
	EndVanished   = "vanished"   // its process was gone without a word, before the rehearsal ended it
)
