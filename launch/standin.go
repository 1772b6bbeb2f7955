// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strconv"
	"strings"
)

// StandIn is a launch command in which another script can take the place of the training.
type StandIn struct {
	// Refused says why no other script can take the place, "" if one can. Then the other fields are
	// empty.
	Refused string
	Words   []string // the command without --module
	At      int      // position in Words of the training script
	Options int      // position in Words at which further options of the launcher may be inserted
	Script  string   // the training script as typed, "" for a module
	Module  string   // the module's name, "" for a script
	// Everywhere means that the command must be started on every node.
	Everywhere bool
	// NodeRank is the launcher's option for a node's rank, "" if the command has none to give.
	NodeRank string
	// Outputs lists the directories that options of the script name as places for its results. Those
	// of --output_dir are in Prediction.Places.
	Outputs []string
	// Bounded holds options that end the launcher's own waits within a time limit.
	Bounded func(seconds int) []string
}

// On returns the command for the node with a rank, with a script in the training's place.
func (s StandIn) On(rank int, script string, seconds int) []string {
	words := slices.Clone(s.Words)
	words[s.At] = script
	var options []string
	if s.Bounded != nil {
		options = s.Bounded(seconds)
	}
	if s.NodeRank != "" {
		options = append(options, s.NodeRank, strconv.Itoa(rank))
	}
	return slices.Insert(words, s.Options, options...)
}

// boundTorchrun returns the options that shorten torchrun's waits, which last 60 s and 600 s by
// default. It keeps a --rdzv-conf of the command. A rank that fails is not started again, because
// one failure is enough.
//
// Source: torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py (read_timeout),
// dynamic_rendezvous.py (join_timeout) and static_tcp_rendezvous.py (timeout), 2.4 to 2.15.
func boundTorchrun(typed []string, rendezvous string) func(int) []string {
	isGiven := slices.ContainsFunc(typed, func(word string) bool {
		return strings.HasPrefix(strings.ReplaceAll(word, "_", "-"), "--rdzv-conf")
	})
	return func(seconds int) []string {
		options := []string{"--max_restarts", "0"}
		if isGiven {
			return options
		}
		half, quarter := strconv.Itoa(max(seconds/2, 1)), strconv.Itoa(max(seconds/4, 1))
		if rendezvous == RendezvousC10d {
			return append(options, "--rdzv_conf", "read_timeout="+quarter+",join_timeout="+half)
		}
		return append(options, "--rdzv_conf", "timeout="+half)
	}
}

// NewStandIn returns the stand-in for parsed options. words is the command, in which the script is
// at position at and options of the launcher may be inserted at position options.
func NewStandIn(o Options, words []string, at, options int) StandIn {
	s := StandIn{Words: words, At: at, Options: options, Everywhere: o.NoSSH || o.isTorchrun(), Outputs: outputsNamed(o.settings())}
	if o.isTorchrun() {
		s.Bounded = boundTorchrun(words[:options], o.Rendezvous)
	}
	switch {
	case !s.Everywhere:
	case o.Program == ProgramAccelerate:
		s.NodeRank = "--machine_rank"
	case o.NoSSH, o.Rendezvous == RendezvousStatic:
		s.NodeRank = "--node_rank"
	}
	return s
}
