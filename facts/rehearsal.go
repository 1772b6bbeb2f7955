package facts

// Rehearsal is the launcher's own program run over all nodes as DeepSpeed will
// run it, with an echo in place of the training. It is the launching machine's.
type Rehearsal struct {
	Command  []string `json:"command"`
	ExitCode int      `json:"exit_code"`
	Seconds  float64  `json:"seconds" fact:"volatile" unit:"s"`
	// Problem says why it did not run to its end: not found, killed at its limit.
	Problem string `json:"problem,omitempty"`
	// Nodes are those that were asked, in rank order: all that were reached. The
	// rank that is a node's own is its position here.
	Nodes []RehearsalNode `json:"nodes"`
	// Complaints are lines on standard error that name no node.
	Complaints []string `json:"complaints,omitempty"`
}

// RehearsalNode is what came back from one node.
type RehearsalNode struct {
	Node string `json:"node"` // as the hostfile spells it
	// Ranks are the node ranks that answered under this name: one, its own, when
	// all is well; none when the node did not answer.
	Ranks  []int    `json:"ranks"`
	Noise  []string `json:"noise,omitempty"`  // other lines on standard output
	Errors []string `json:"errors,omitempty"` // lines on standard error that name it
}
