package checks

import "preflight/launch"

// Interconnect is nodes whose ranks will talk alike.
type Interconnect struct {
	Nodes   []string         `json:"nodes"`
	Inside  launch.Transport `json:"inside"`
	Between launch.Transport `json:"between"`
}
