package report

import (
	"cmp"
	"errors"
	"io"

	"github.com/hashicorp/go-multierror"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/dsconfig"
)

// Prediction is what a launch will do, as preflight predict tells it: schema 1,
// fields are added, never changed.
type Prediction struct {
	Schema    int    `json:"schema"`
	Version   string `json:"version"`
	Program   string `json:"program"`
	DeepSpeed string `json:"deepspeed"` // the release whose rules hold, "" for the newest
	Hostfile  string `json:"hostfile"`  // "" without one
	Hosts     []struct {
		Name  string `json:"name"`
		Slots []int  `json:"slots"` // nil where nobody said how many
	} `json:"hosts"`
	WorldSize   int              `json:"world_size"` // 0 when not known
	Ranks       []launch.Rank    `json:"ranks"`
	Launcher    string           `json:"launcher"`
	Local       bool             `json:"local"`
	MasterAddr  MasterAddress    `json:"master_addr"`
	MasterPort  int              `json:"master_port"`
	Interpreter string           `json:"interpreter"`
	WorkDir     string           `json:"workdir"`
	Script      string           `json:"script"`
	Arguments   []string         `json:"arguments"`
	Files       []facts.File     `json:"files"`
	Config      *dsconfig.Config `json:"config"`
	Ops         []string         `json:"ops"`     // compiled on first use
	Timeout     *float64         `json:"timeout"` // seconds, nil when not known
	Env         []facts.Setting  `json:"env"`     // what every rank is given
	Command     []string         `json:"command"`
	CommandEnv  []facts.Setting  `json:"command_env"`
	Notes       []hostfile.Note  `json:"notes"`
	Errors      []Refusal        `json:"errors"` // why there is no launch; all else is empty then

	prediction launch.Prediction
}

// MasterAddress is where rank 0 will be looked for. Value is nil where a node has
// to be asked first.
type MasterAddress struct {
	Rule  string  `json:"rule"`
	Value *string `json:"value"`
}

// Refusal is one thing that DeepSpeed refuses.
type Refusal struct {
	Line      int    `json:"line"` // of the hostfile, 0 for the command
	Message   string `json:"message"`
	DeepSpeed string `json:"deepspeed"` // what DeepSpeed itself would say
}

// NewPrediction tells a prediction. head is the launching machine, which saw the files.
func NewPrediction(p launch.Prediction, head *facts.Node) Prediction {
	f := Prediction{
		Schema: 1, Program: p.Program, DeepSpeed: p.DeepSpeed, WorldSize: p.WorldSize(), Ranks: p.Ranks(),
		Launcher: p.Launcher, Local: p.Local, Interpreter: p.Interpreter, WorkDir: p.WorkDir,
		Script: p.Script, Arguments: p.Arguments, Config: p.Config, Ops: p.Ops(), Env: p.Exports, Command: p.Command, CommandEnv: p.CommandEnv,
		Notes: p.Notes, prediction: p,
	}
	for _, host := range p.Hosts {
		f.Hosts = append(f.Hosts, struct {
			Name  string `json:"name"`
			Slots []int  `json:"slots"`
		}{host.Name, host.Slots})
	}
	if head != nil && head.Files != nil {
		f.Files = head.Files.Files
	}
	if p.Timeout > 0 {
		f.Timeout = &p.Timeout
	}
	if len(p.Hosts) > 0 {
		meeting := p.Endpoint(&facts.Node{Name: p.Hosts[0].Name})
		f.MasterAddr.Rule, f.MasterPort = cmp.Or(meeting.Rule, meeting.Error), meeting.Port
		if meeting.Host != "" {
			f.MasterAddr.Value = &meeting.Host
		}
	}
	return f
}

// Refused is the prediction of a launch that DeepSpeed refuses.
func Refused(err error) Prediction {
	f := Prediction{Schema: 1}
	all := []error{err}
	if several := (*multierror.Error)(nil); errors.As(err, &several) {
		all = several.Errors
	}
	for _, one := range all {
		refusal := Refusal{Message: one.Error()}
		var line *hostfile.LineError
		var filter *hostfile.FilterError
		var usage *launch.UsageError
		switch {
		case errors.As(one, &line):
			refusal = Refusal{line.Line, line.Message, line.DeepSpeed}
		case errors.As(one, &filter):
			refusal.DeepSpeed = filter.DeepSpeed
		case errors.As(one, &usage):
			refusal.DeepSpeed = usage.Original
		}
		f.Errors = append(f.Errors, refusal)
	}
	return f
}

// PredictionJSON writes a prediction for programs. Lists that are empty are there.
func PredictionJSON(w io.Writer, f Prediction) error {
	f.Ranks, f.Arguments, f.Files = orEmpty(f.Ranks), orEmpty(f.Arguments), orEmpty(f.Files)
	f.Ops, f.Env, f.Command, f.CommandEnv = orEmpty(f.Ops), orEmpty(f.Env), orEmpty(f.Command), orEmpty(f.CommandEnv)
	f.Notes, f.Errors, f.Hosts = orEmpty(f.Notes), orEmpty(f.Errors), orEmpty(f.Hosts)
	return indented(w, f)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
