package checks

import (
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// pdshVariables are what pdsh reads from the environment and DeepSpeed does not
// override (it does PDSH_RCMD_TYPE and, by -f, FANOUT).
// Source: chaos/pdsh 2.34, opt.c and modules/sshcmd.c; tried with that version.
// Its NEWS dates the two time limits to 2.32.
var pdshVariables = []struct {
	Name     string
	Since    string // the pdsh that reads it first, "" for any
	Tried    bool   // the rehearsal runs with it, and says more
	Verdict  Verdict
	Alters   func(value string) bool
	Summary  string
	WouldSee string
}{
	{"PDSH_COMMAND_TIMEOUT", "2.32", false, Fail, isOn, "PDSH_COMMAND_TIMEOUT ends the training after that many seconds", "HOST: command timeout"},
	{"PDSH_CONNECT_TIMEOUT", "2.32", false, Warn, func(v string) bool { n, isNumber := launch.Number(v); return isNumber && n > 0 && n < 5 },
		"PDSH_CONNECT_TIMEOUT leaves ssh less time than a busy node needs", "ssh: connect to host … port 22: Connection timed out"},
	{"PDSH_SSH_ARGS", "", true, Warn, isSet, "PDSH_SSH_ARGS replaces pdsh's own -2 -a -x for ssh, so that the launch logs in otherwise than preflight did",
		"whatever ssh says with these options"},
	{"DSHPATH", "", false, Warn, isSet, "DSHPATH replaces PATH on every node, so that ranks find no compiler and no tools", "ninja, nvcc or gcc: command not found"},
}

func isSet(value string) bool { return value != "" }

func pdshEnv(view View, pdsh *facts.PDSH) []Finding {
	var findings []Finding
	for _, variable := range pdshVariables {
		value := headVariable(view, variable.Name)
		unread := pdsh != nil && variable.Since != "" && launch.Before(pdsh.Version, variable.Since)
		if !variable.Alters(value) || unread || variable.Tried && view.Head.Rehearsal != nil {
			continue
		}
		findings = append(findings, onHead(view, Finding{
			Verdict:  variable.Verdict,
			Summary:  variable.Summary,
			Got:      variable.Name + "=" + value,
			WouldSee: variable.WouldSee,
			Remedy:   []fix.Command{fix.Here("unset %s", fix.Variable(variable.Name))},
		}))
	}
	return findings
}
