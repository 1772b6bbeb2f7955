package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// pdshFanOut is how many hosts DeepSpeed lets pdsh work on at a time.
// Source: deepspeed/launcher/constants.py, PDSH_MAX_FAN_OUT, 0.19.6 of development.
const pdshFanOut = 1024

func pdshFindings(view View, pdsh *facts.PDSH) []Finding {
	var findings []Finding
	add := func(f Finding) { findings = append(findings, onHead(view, f)) }
	switch {
	case pdsh == nil:
		add(Finding{
			Summary: "pdsh is not in PATH of the launching machine",
			Fix:     installFix(view, "pdsh", "pdsh", "pdsh-rcmd-ssh"),
		})
	case len(pdsh.Insecure) > 0:
		f := Finding{
			Summary:  "pdsh refuses the directory of its modules",
			Got:      strings.Join(pdsh.Insecure, ", "),
			Want:     "owned by root or the user, and writable to nobody else, up to /",
			WouldSee: fmt.Sprintf("module path %q insecure. … Couldn't load any pdsh modules", pdsh.ModuleDir),
		}
		for _, entry := range pdsh.Insecure {
			directory, _, _ := strings.Cut(entry, " ")
			directory = shellWord(directory)
			f.Fix = append(f.Fix, fmt.Sprintf("sudo chown root:root %s && sudo chmod go-w %s", directory, directory))
		}
		add(f)
	case !slices.Contains(pdsh.Modules, "ssh") && pdsh.Problem != "":
		add(Finding{
			Summary:  "pdsh cannot load its modules",
			Got:      pdsh.Problem,
			WouldSee: pdsh.Problem,
			Fix:      []string{shellWord(pdsh.Path) + " -V"},
		})
	case !slices.Contains(pdsh.Modules, "ssh"):
		add(Finding{
			Summary:  "pdsh has no ssh module",
			Got:      "modules " + strings.Join(pdsh.Modules, ", "),
			WouldSee: `pdsh: No such rcmd module "ssh"`,
			Fix:      installFix(view, "pdsh", "pdsh-rcmd-ssh"),
		})
	}
	if hosts := len(view.Launch.Hosts); hosts > pdshFanOut {
		add(Finding{
			Summary:  fmt.Sprintf("pdsh starts on %d hosts at a time, and ranks do not end: the others never start", pdshFanOut),
			Got:      fmt.Sprintf("%d hosts", hosts),
			Want:     fmt.Sprintf("at most %d", pdshFanOut),
			WouldSee: "Timed out after … seconds waiting for clients. …/… clients joined",
			Fix:      []string{fmt.Sprintf("deepspeed --launcher_args='-f %d' …", hosts)},
		})
	}
	return append(findings, pdshEnv(view)...)
}

// pdshVariables are what pdsh reads from the environment and DeepSpeed does not
// override (it does PDSH_RCMD_TYPE and, by -f, FANOUT).
// Source: chaos/pdsh 2.34, opt.c and modules/sshcmd.c; tried with that version.
var pdshVariables = []struct {
	Name     string
	Verdict  Verdict
	Alters   func(value string) bool
	Summary  string
	WouldSee string
}{
	{"PDSH_COMMAND_TIMEOUT", Fail, isOn, "PDSH_COMMAND_TIMEOUT ends the training after that many seconds", "HOST: command timeout"},
	{"PDSH_CONNECT_TIMEOUT", Warn, func(v string) bool { n, isNumber := launch.Number(v); return isNumber && n > 0 && n < 5 },
		"PDSH_CONNECT_TIMEOUT leaves ssh less time than a busy node needs", "ssh: connect to host … port 22: Connection timed out"},
	{"PDSH_SSH_ARGS", Warn, isSet, "PDSH_SSH_ARGS replaces pdsh's own -2 -a -x for ssh, so that the launch logs in otherwise than preflight did",
		"whatever ssh says with these options"},
	{"DSHPATH", Warn, isSet, "DSHPATH replaces PATH on every node, so that ranks find no compiler and no tools", "ninja, nvcc or gcc: command not found"},
}

func isSet(value string) bool { return value != "" }

func pdshEnv(view View) []Finding {
	if view.Head.Env == nil {
		return nil
	}
	var findings []Finding
	for _, variable := range pdshVariables {
		for _, setting := range view.Head.Env.Vars {
			if setting.Name != variable.Name || !variable.Alters(setting.Value) {
				continue
			}
			findings = append(findings, onHead(view, Finding{
				Verdict:  variable.Verdict,
				Summary:  variable.Summary,
				Got:      variable.Name + "=" + setting.Value,
				WouldSee: variable.WouldSee,
				Fix:      []string{"unset " + variable.Name},
			}))
		}
	}
	return findings
}
