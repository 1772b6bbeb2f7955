package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"preflight/checks/fix"
	"preflight/launch"
)

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
		p.list("runs", f.Script+shell(" ", f.Arguments))
	}
	var files, given []string
	for _, file := range f.Files {
		what := file.Path + "  " + file.Role
		if !file.Exists {
			what += ", not there"
		}
		files = append(files, what)
	}
	p.list("files", files...)
	p.config(f)
	p.list("compiles", strings.Join(f.Ops, ", "))
	for _, setting := range f.Env {
		given = append(given, fmt.Sprintf("%s=%s  from %s", setting.Name, setting.Value, setting.Source))
	}
	p.list("environment", given...)
	p.command(f)
	for _, note := range f.Notes {
		p.line("\n%s  %s", p.colored("warn", "WARN"), Escape(note.Message))
	}
	return p.writeTo(w)
}

func (f Prediction) headline() string {
	program := f.Program
	if f.DeepSpeed != "" {
		program += " " + f.DeepSpeed
	}
	text := fmt.Sprintf("%s on %s", program, Plural(len(f.Hosts), "node"))
	if f.WorldSize > 0 {
		text += ", " + Plural(f.WorldSize, "rank")
	}
	switch {
	case f.prediction.Torchrun():
		return text + ", started on every node by itself"
	case f.prediction.NoSSH:
		return text + ", started on every node by hand (--no_ssh)"
	case f.Local:
		return text + ", started here without a launcher"
	}
	return text + ", by " + f.Launcher
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
		rows = append(rows, []string{Escape(host.Name),
			spans(byNode[i], func(r launch.Rank) int { return r.Rank }),
			spans(byNode[i], func(r launch.Rank) int { return r.Device }),
			spans(byNode[i], func(r launch.Rank) int { return r.LocalRank })})
	}
	p.line("%s", p.table([]string{"node", "ranks", "devices", "local ranks"}, nil, rows))
}

// spans folds numbers as 0-3,6; "none" for none.
func spans(ranks []launch.Rank, number func(launch.Rank) int) string {
	if len(ranks) == 0 {
		return "none"
	}
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && number(ranks[j+1]) == number(ranks[j])+1 {
			j++
		}
		part := fmt.Sprint(number(ranks[i]))
		if j > i {
			part += fmt.Sprintf("-%d", number(ranks[j]))
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
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
	return fmt.Sprintf("%s  by %s", time.Duration(*f.Timeout*float64(time.Second)), f.prediction.TimeoutFrom)
}

func (f Prediction) interpreter() string {
	if f.Interpreter == "" {
		return "not known: there is no deepspeed in PATH here (--python PATH says which)"
	}
	return f.Interpreter + "  from " + f.prediction.InterpreterFrom
}

// config says what a DeepSpeed configuration asks of the machines.
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

// command is what DeepSpeed will execute, as a shell would take it.
func (p *page) command(f Prediction) {
	if len(f.Command) == 0 {
		return
	}
	text := ""
	for _, setting := range f.CommandEnv {
		text += setting.Name + "=" + fix.Quote(setting.Value) + " "
	}
	p.line("\ncommand")
	text += strings.TrimSpace(shell(" ", f.Command))
	p.line("  %s", Escape(text))
	for _, placeholder := range []struct{ name, stands string }{
		{"$MASTER_ADDR", "the address that is not known yet"}, {"$PID", "the number of deepspeed's own process"},
	} {
		if strings.Contains(text, placeholder.name) {
			p.wrapped("  ", placeholder.name+" stands for "+placeholder.stands)
		}
	}
}

// shell is words as a shell would take them, each behind a separator.
func shell(separator string, words []string) string {
	text := ""
	for _, word := range words {
		text += separator + fix.Quote(word)
	}
	return text
}
