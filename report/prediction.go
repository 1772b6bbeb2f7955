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

// Prediction is what a launch will do, as preflight predict prints it. Its schema is 1. New
// releases may add fields but never change them.
type Prediction struct {
	Schema      int              `json:"schema"`
	Version     string           `json:"version"`
	Program     string           `json:"program"`
	DeepSpeed   string           `json:"deepspeed"` // the DeepSpeed release whose rules apply, "" for the newest
	Hostfile    string           `json:"hostfile"`  // "" without a hostfile
	Hosts       []hostfile.Host  `json:"hosts"`
	WorldSize   int              `json:"world_size"` // 0 if unknown
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
	Ops         []string         `json:"ops"`     // the ops that are compiled on first use
	Timeout     *float64         `json:"timeout"` // seconds, nil if unknown
	Env         []facts.Setting  `json:"env"`     // the variables that every rank gets
	Command     []string         `json:"command"`
	CommandEnv  []facts.Setting  `json:"command_env"`
	Notes       []hostfile.Note  `json:"notes"`
	Errors      []Refusal        `json:"errors"` // why the launch cannot start; all other fields are empty then

	prediction launch.Prediction
}

// MasterAddress is where the ranks will look for rank 0. Value is nil if only a node can determine
// the address.
type MasterAddress struct {
	Rule  string  `json:"rule"`
	Value *string `json:"value"`
}

// Refusal is one error for which DeepSpeed refuses a launch.
type Refusal struct {
	Line      int    `json:"line"` // line of the hostfile, 0 for the command
	Message   string `json:"message"`
	DeepSpeed string `json:"deepspeed"` // DeepSpeed's own message
}

// NewPrediction converts a prediction for output. head is the launching machine, whose facts
// describe the files.
func NewPrediction(p launch.Prediction, head *facts.Node) Prediction {
	f := Prediction{
		Schema: 1, Program: p.Program, DeepSpeed: p.DeepSpeed, WorldSize: p.WorldSize(), Ranks: p.Ranks(),
		Launcher: p.Launcher, Local: p.Local, Interpreter: p.Interpreter, WorkDir: p.WorkDir,
		Script: p.Script, Arguments: p.Arguments, Config: p.Config, Ops: p.Ops(), Env: p.Exports, Command: p.Command, CommandEnv: p.CommandEnv,
		Notes: p.Notes, prediction: p,
	}
	f.Hosts = text.Map(p.Hosts, func(h hostfile.Host) hostfile.Host { return hostfile.Host{Name: h.Name, Slots: h.Slots} }) // without the line numbers of the hostfile
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

// Refused returns the prediction of a launch that DeepSpeed refuses.
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

// PredictionJSON writes a prediction for programs. Empty lists are written as [].
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

// PredictionText writes a prediction for a person: which ranks run where, the command that starts
// them, and warnings.
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

// program returns the program that starts the ranks, for DeepSpeed with its release.
func (f Prediction) program() string {
	if f.Program != launch.ProgramDeepSpeed {
		return f.Program
	}
	return strings.TrimSpace(f.Program + " " + f.DeepSpeed)
}

// started returns a text that says how the ranks are started.
func (f Prediction) started() string {
	switch {
	case f.prediction.Srun:
		return "started on each node by srun"
	case f.prediction.Torchrun():
		return "started on each node"
	case f.prediction.NoSSH:
		return "started on each node by hand (--no_ssh)"
	case f.Local:
		return "started on the launching machine without a launcher"
	}
	return "over " + f.Launcher
}

// placement prints which ranks run where, one row for each node. For a large fleet it prints only
// the first and the last nodes, unless all nodes are requested.
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

// spans returns the numbers of ranks in folded form, such as 0-3,6. It returns "none" if there are
// no ranks.
func spans(ranks []launch.Rank, number func(launch.Rank) int) string {
	numbers := text.Map(ranks, number)
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

// shell returns words quoted for a shell.
func shell(words []string) string { return strings.Join(text.Map(words, typed), " ") }

// typed returns a word quoted for a shell. A word with line breaks or other unprintable characters
// is quoted for bash.
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
