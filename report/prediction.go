// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/hashicorp/go-multierror"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/launch/dsconfig"
)

// Prediction is what a launch will do, as preflight predict tells it: schema 1,
// fields are added, never changed.
type Prediction struct {
	Schema      int              `json:"schema"`
	Version     string           `json:"version"`
	Program     string           `json:"program"`
	DeepSpeed   string           `json:"deepspeed"` // the release whose rules hold, "" for the newest
	Hostfile    string           `json:"hostfile"`  // "" without one
	Hosts       []hostfile.Host  `json:"hosts"`
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
	f.Hosts = text.Map(p.Hosts, func(h hostfile.Host) hostfile.Host { return hostfile.Host{Name: h.Name, Slots: h.Slots} }) // the line is the hostfile's own
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
	if several, ok := errors.AsType[*multierror.Error](err); ok {
		all = several.Errors
	}
	for _, one := range all {
		refusal := Refusal{Message: one.Error()}
		if line, ok := errors.AsType[*hostfile.LineError](one); ok {
			refusal = Refusal{line.Line, line.Message, line.DeepSpeed}
		} else if filter, ok := errors.AsType[*hostfile.FilterError](one); ok {
			refusal.DeepSpeed = filter.DeepSpeed
		} else if usage, ok := errors.AsType[*launch.UsageError](one); ok {
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
	return JSON(w, f)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// PredictionText writes a prediction for a person: who runs what, by which command,
// and what to beware of.
func PredictionText(w io.Writer, f Prediction, style Style) error {
	p := &page{style: style}
	p.line("%s", f.headline())
	p.line("")
	p.placement(f)
	p.line("")
	p.list("rendezvous", f.meeting())
	p.list("timeout", f.timeout())
	p.list("directory", f.WorkDir)
	p.list("interpreter", f.interpreter())
	if f.Script != "" {
		p.list("runs", strings.TrimSpace(f.Script+" "+shell(f.Arguments)))
	}
	p.list("files", text.Map(f.Files, func(file facts.File) string {
		if !file.Exists {
			return file.Path + "  " + file.Role + ", not found"
		}
		return file.Path + "  " + file.Role
	})...)
	p.config(f)
	p.list("compiles", strings.Join(f.Ops, ", "))
	p.list("environment", text.Map(f.Env, func(s facts.Setting) string { return fmt.Sprintf("%s=%s  from %s", s.Name, s.Value, s.Source) })...)
	p.command(f)
	for _, note := range f.Notes {
		p.line("\n%s  %s", p.colored("warn", "WARN"), text.Escape(note.Message))
	}
	return p.writeTo(w)
}

func (f Prediction) headline() string {
	line := fmt.Sprintf("%s on %s", f.program(), text.Plural(len(f.Hosts), "node"))
	if f.WorldSize > 0 {
		line += ", " + text.Plural(f.WorldSize, "rank")
	}
	return line + ", " + f.started()
}

// program is what is started, with the release that is known of DeepSpeed alone.
func (f Prediction) program() string {
	if f.Program != launch.ProgramDeepSpeed {
		return f.Program
	}
	return strings.TrimSpace(f.Program + " " + f.DeepSpeed)
}

// started is how the ranks are.
func (f Prediction) started() string {
	switch {
	case f.prediction.Torchrun():
		return "started on each node"
	case f.prediction.NoSSH:
		return "started on each node by hand (--no_ssh)"
	case f.Local:
		return "started on the launching machine without a launcher"
	}
	return "over " + f.Launcher
}

// placement says which ranks run where, one row a node; of many nodes the first
// and the last ones, unless all are asked for.
func (p *page) placement(f Prediction) {
	const few, shown = 24, 8
	var rows [][]string
	byNode := map[int][]launch.Rank{}
	for _, rank := range f.Ranks {
		byNode[rank.Node] = append(byNode[rank.Node], rank)
	}
	for i, host := range f.Hosts {
		if len(f.Hosts) > few && !p.style.Verbose && i >= shown && i < len(f.Hosts)-shown {
			if i == shown {
				rows = append(rows, []string{fmt.Sprintf("… %d more (-v shows all)", len(f.Hosts)-2*shown), "", "", ""})
			}
			continue
		}
		rows = append(rows, []string{text.Escape(host.Name),
			spans(byNode[i], func(r launch.Rank) int { return r.Rank }),
			spans(byNode[i], func(r launch.Rank) int { return r.Device }),
			spans(byNode[i], func(r launch.Rank) int { return r.LocalRank })})
	}
	p.line("%s", p.table([]string{"node", "ranks", "devices", "local ranks"}, nil, rows))
}

// spans folds what ranks are numbered by, as 0-3,6; "none" for none.
func spans(ranks []launch.Rank, number func(launch.Rank) int) string {
	var numbers []int
	for _, rank := range ranks {
		numbers = append(numbers, number(rank))
	}
	return cmp.Or(facts.Ranges(numbers), "none")
}

func (f Prediction) meeting() string {
	if f.MasterAddr.Value == nil {
		return fmt.Sprintf("port %d, on an address that is not known yet: %s", f.MasterPort, f.MasterAddr.Rule)
	}
	return fmt.Sprintf("%s port %d  by %s", *f.MasterAddr.Value, f.MasterPort, f.MasterAddr.Rule)
}

func (f Prediction) timeout() string {
	if f.Timeout == nil {
		return "not known"
	}
	return fmt.Sprintf("%s  by %s", text.Duration(*f.Timeout), f.prediction.TimeoutFrom)
}

func (f Prediction) interpreter() string {
	if f.Interpreter == "" {
		return "not known: there is no deepspeed in PATH here (--python PATH says which)"
	}
	return f.Interpreter + "  from " + f.prediction.InterpreterFrom
}

func (p *page) config(f Prediction) {
	if f.Config == nil {
		return
	}
	parts := []string{fmt.Sprintf("ZeRO stage %d", f.Config.ZeroStage)}
	for _, offload := range f.Config.Offload {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s offloaded to %s %s", offload.What, offload.Device, offload.Path)))
	}
	if f.Config.TrainBatch != nil && f.Config.MicroBatch != nil && f.Config.Accumulation != nil {
		parts = append(parts, fmt.Sprintf("batch %d = %d a rank × %d accumulated × %d ranks", *f.Config.TrainBatch, *f.Config.MicroBatch, *f.Config.Accumulation, f.WorldSize))
	}
	texts := []string{strings.Join(parts, ", ")}
	for _, problem := range f.Config.Problems {
		texts = append(texts, problem.Message)
	}
	p.list("config", texts...)
}

func (p *page) command(f Prediction) {
	if len(f.Command) == 0 {
		return
	}
	typedLine := ""
	for _, setting := range f.CommandEnv {
		typedLine += setting.Name + "=" + typed(setting.Value) + " "
	}
	typedLine += shell(f.Command)
	p.line("\ncommand\n  %s", text.Escape(typedLine))
	for _, placeholder := range []struct{ name, stands string }{
		{"$MASTER_ADDR", "the address that is not known yet"}, {"$PID", "the number of deepspeed's own process"},
	} {
		if strings.Contains(typedLine, placeholder.name) {
			p.wrapped("  ", placeholder.name+" stands for "+placeholder.stands)
		}
	}
}

// shell is words as a shell would take them.
func shell(words []string) string { return strings.Join(text.Map(words, typed), " ") }

// typed is a word as it is typed: one with a line break or the like in it as bash takes it.
func typed(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text.Quote(word)
	}
	var text strings.Builder
	for i := range len(word) {
		switch c := word[i]; {
		case c == '\'' || c == '\\':
			text.WriteString(`\` + string(c))
		case c < ' ' || c > '~':
			fmt.Fprintf(&text, `\%03o`, c)
		default:
			text.WriteByte(c)
		}
	}
	return "$'" + text.String() + "'"
}
