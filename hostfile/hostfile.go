package hostfile

// Host is one node of the launch.
type Host struct {
	Name  string `json:"name"`           // as written: "w1", "user@w1", "10.0.0.1"
	Slots []int  `json:"slots"`          // the accelerator indices to use, in rank order; may be empty
	Line  int    `json:"line,omitempty"` // where the hostfile names it, 0 when it came from elsewhere
}

// Note is a place where the launch will do something its user is unlikely to
// want, although the input is valid. launcher-args reports it.
type Note struct {
	Trap    string `json:"trap"`           // kebab-case: "include-drops-host", "single-host-runs-here", "zero-slots"
	Line    int    `json:"line,omitempty"` // hostfile line, 0 when it is about an argument
	Message string `json:"message"`
}

// LineError is one line of a hostfile that DeepSpeed refuses.
type LineError struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Message   string `json:"message"`   // what is wrong and the way out
	DeepSpeed string `json:"deepspeed"` // what DeepSpeed itself would say
}
