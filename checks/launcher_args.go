package checks

import (
	"fmt"
	"slices"

	"preflight/facts"
	"preflight/hostfile"
)

var launcherArgs = Check{
	ID:       "launcher-args",
	Title:    "the launcher will read the command, the hostfile and the filters as they are meant",
	Severity: Warning,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Volatile: true,
	Doc: "A launch command can be valid and still start something else: DeepSpeed 0.15.2 to 0.19.6 drops a host that --include names without slots, " +
		"a single active host runs on the launching machine without ssh, --num_gpus does not ask the hostfile how many slots there are, pdsh reads " +
		"brackets, commas and colons in names and %n in arguments by rules of its own, and the shell of every node parses the script's arguments once more. " +
		"The command is parsed as that release of DeepSpeed parses it, or as torchrun does, and what will surprise is said here; where only a look decides " +
		"(is that single host this machine, has any node an eth0 for Open MPI, is torch too new for elastic training), the nodes were looked at.",
	WouldSee: "training on other hosts, slots or values than the command seems to say",
	Run: func(v View) []Finding {
		var findings []Finding
		for _, note := range v.Launch.Notes {
			known, isKnown := traps[note.Trap]
			switch {
			case known.exported, isKnown && v.Launch.Torchrun() && !known.torchrun:
			case known.look != nil:
				findings = append(findings, known.look(v, note)...)
			default:
				findings = append(findings, known.finding(v, note))
			}
		}
		return slices.Concat(findings, tornElastic(v), torchrunArgs(v))
	},
}

// finding is a note as it stands: its message says what happens and the way out.
func (t trap) finding(view View, note hostfile.Note) Finding {
	f := Finding{Verdict: Warn, Nodes: []string{view.Head.Name}, Summary: note.Message, Remedy: lookAtLine(note), WouldSee: t.wouldSee}
	if note.Line > 0 && !t.inCommand {
		f.Got = fmt.Sprintf("line %d of the hostfile", note.Line)
	}
	if t.fatal {
		f.Verdict = Fail
	}
	if t.fix != nil {
		f.Remedy = t.fix(view, note)
	}
	return f
}
