package explain

// Schema is the version of the JSON report; fields are only ever added.
const Schema = 1

// Report is what logs tell of a launch.
type Report struct {
	Schema   int `json:"schema"`
	ExitCode int `json:"exit_code"` // 0 nothing failed, 1 a cause is known, 2 something failed and nothing says why
	// Causes are what the job died of, the root cause first; none where nothing is
	// wrong or known.
	Causes []Finding `json:"causes"`
	// Program is the program's own failure, where it came before all others: mostly an
	// exception that no signature knows.
	Program *Finding `json:"program,omitempty"`
	// Consequences followed from the causes, or from what the logs do not show.
	Consequences []Finding `json:"consequences"`
	Noise        []Finding `json:"noise"`
	// Timeline is when each rank or node first failed, the first one first; only
	// where there are several.
	Timeline []Death `json:"timeline,omitempty"`
	// Network is what NCCL said it uses, node by node.
	Network []Network `json:"network,omitempty"`
	// Unread are the logs that could not be read to their end.
	Unread []Unread `json:"unread,omitempty"`
	Files  int      `json:"files"`
	Lines  int      `json:"lines"`
}

// Unread is a log that could not be read to its end, and why.
type Unread struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// Finding is one cause, or one message that is none, with where it was read.
type Finding struct {
	Cause    string     `json:"cause,omitempty"` // "" for launchers' summaries and noise
	Check    string     `json:"check,omitempty"` // that says so before the launch
	Checks   []string   `json:"checks,omitempty"`
	Title    string     `json:"title,omitempty"` // of the cause
	Summary  string     `json:"summary"`         // what this log tells of it
	Nodes    []string   `json:"nodes,omitempty"`
	Ranks    []string   `json:"ranks,omitempty"`
	Count    int        `json:"count"` // of lines
	Evidence []Evidence `json:"evidence"`
	Fix      []string   `json:"fix,omitempty"`
	Command  string     `json:"command,omitempty"` // what to run before the next launch
	// MasterPort is the port of the master that the messages tell, for a check of it.
	MasterPort int `json:"master_port,omitempty"`
	// Hearsay is a cause that only others than its victim tell of.
	Hearsay bool `json:"hearsay,omitempty"`
}

// Evidence is one line of a log.
type Evidence struct {
	File string `json:"file"`
	Line int    `json:"line"` // 1 is the first
	Node string `json:"node,omitempty"`
	Rank string `json:"rank,omitempty"`
	Time string `json:"time,omitempty"` // month and day to fraction of a second, as logged
	Text string `json:"text"`
}

// Death is the first failure of one rank or node.
type Death struct {
	Node  string `json:"node,omitempty"`
	Rank  string `json:"rank,omitempty"`
	Time  string `json:"time,omitempty"`
	Cause string `json:"cause,omitempty"` // "" for the program's own exception
	File  string `json:"file"`
	Line  int    `json:"line"`
	Text  string `json:"text"`
}
