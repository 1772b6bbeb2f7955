package smoke

import (
	"context"
	"errors"
	"time"

	"preflight/facts"
)

// Crew is the ranks of one node, which are started once and then have one order after
// another, until its context ends.
type Crew struct {
	Token       string  `json:"token"`  // of this run: orders name it
	Engine      string  `json:"engine"` // Torch or Direct
	Interpreter string  `json:"interpreter"`
	WorkDir     string  `json:"workdir"`
	Accelerator string  `json:"accelerator"` // cuda or cpu
	Ranks       []Place `json:"ranks"`
	// Env is what the launcher sets for every rank beside what a login gives it.
	Env []facts.Setting `json:"env,omitempty"`
	// NCCL is the path of the library that the ranks will load, "" for none (of Direct).
	NCCL string `json:"nccl,omitempty"`
	// Limit is for all of them to load.
	Limit time.Duration `json:"limit"`
}

// Place is where one rank runs.
type Place struct {
	LocalRank int `json:"local_rank"`
	// Device is the accelerator that it takes, as LOCAL_RANK or Visible lead it there, -1 for none.
	Device int `json:"device"`
	// Visible is what CUDA_VISIBLE_DEVICES is set to by the launcher, "" where it sets none.
	Visible string `json:"visible,omitempty"`
}

// Mustered is how the ranks of a node have come up.
type Mustered struct {
	Backend string            `json:"backend"`
	Refused string            `json:"refused,omitempty"` // why none was started
	Ranks   []facts.SmokeRank `json:"ranks"`
}

// Hold starts the ranks, says how they came up, and ends them and all that they left when ctx ends.
func (c Crew) Hold(ctx context.Context, ready func(Mustered) error) error {
	return errors.New("no engine")
}

// Orders are one for each of some ranks of a crew, which carry them out at once.
type Orders struct {
	Token string        `json:"token"`
	Of    map[int]Order `json:"of"` // by local rank
	// Limit is for all of them: who has not answered by then is ended, as is one that failed at
	// talking. Its next order has it loaded anew, within the limit of the crew.
	Limit time.Duration `json:"limit"`
	// Dismiss has the crew ended instead, so that it can be told what is left of it.
	Dismiss bool `json:"dismiss,omitempty"`
}

// Outcome is what the ranks answered, by local rank.
type Outcome struct {
	Done     map[int]Done         `json:"done"`
	Failures []facts.SmokeFailure `json:"failures,omitempty"` // in the order in which they came
	Seconds  float64              `json:"seconds"`
	Left     []string             `json:"left,omitempty"` // of a crew that was dismissed, in /dev/shm
}

// Run has them carried out.
func (o Orders) Run(ctx context.Context) Outcome { return Outcome{} }
