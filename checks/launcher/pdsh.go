package launcher

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch/nccl"
)

// pdshFanOut is how many hosts DeepSpeed lets pdsh work on at a time.
// Source: deepspeed/launcher/constants.py, PDSH_MAX_FAN_OUT, 0.19.6 of development.
const pdshFanOut = 1024

func pdshFindings(view checks.View, pdsh *facts.PDSH) []checks.Finding {
	var findings []checks.Finding
	add := func(f checks.Finding) { findings = append(findings, onHead(view, f)) }
	switch {
	case pdsh == nil:
		add(checks.Finding{
			Summary: "pdsh is not in PATH of the launching machine",
			Remedy:  fix.Install(fix.Here, remedy.SystemOf(view.Head), "pdsh", "pdsh", "pdsh-rcmd-ssh"),
		})
	case len(pdsh.Insecure) > 0:
		f := checks.Finding{
			Summary:  "pdsh refuses the directory of its modules",
			Got:      strings.Join(pdsh.Insecure, ", "),
			Want:     "owned by root or the user, and writable to nobody else, up to /",
			WouldSee: fmt.Sprintf("module path %q insecure. … Couldn't load any pdsh modules", pdsh.ModuleDir),
		}
		for _, entry := range pdsh.Insecure {
			directory, _, _ := strings.Cut(entry, " ")
			f.Remedy = append(f.Remedy, fix.Here("sudo chown root:root %s && sudo chmod go-w %[1]s", fix.Path(directory)))
		}
		add(f)
	case !slices.Contains(pdsh.Modules, "ssh") && pdsh.Problem != "":
		add(checks.Finding{
			Summary:  "pdsh cannot load its modules",
			Got:      pdsh.Problem,
			WouldSee: pdsh.Problem,
			Remedy:   []fix.Command{fix.Here("%s -V", fix.Path(pdsh.Path))},
		})
	case !slices.Contains(pdsh.Modules, "ssh"):
		add(checks.Finding{
			Summary:  "pdsh has no ssh module",
			Got:      "modules " + strings.Join(pdsh.Modules, ", "),
			WouldSee: `pdsh: No such rcmd module "ssh"`,
			Remedy:   fix.Install(fix.Here, remedy.SystemOf(view.Head), "pdsh", "pdsh-rcmd-ssh"),
		})
	}
	if hosts, most := len(view.Launch.Hosts), fanOut(view.Launch.LauncherArgs); hosts > most {
		add(checks.Finding{
			Summary:  fmt.Sprintf("pdsh starts on %d hosts at a time, and ranks do not end: the others never start", most),
			Got:      fmt.Sprintf("%d hosts", hosts),
			Want:     fmt.Sprintf("at most %d", most),
			WouldSee: "Timed out after … seconds waiting for clients. …/… clients joined",
			Remedy:   []fix.Command{fix.Here("deepspeed --launcher_args='-f %s' …", fix.Number(hosts))},
		})
	}
	if findings == nil { // else it fails for the reason that is already there
		findings = rehearsalFindings(view)
	}
	return append(findings, pdshEnv(view, pdsh)...)
}

// fanOut is how many hosts pdsh works on at a time: the last -f wins, and
// --launcher_args come behind DeepSpeed's own.
func fanOut(launcherArgs []string) int {
	most := pdshFanOut
	for i, word := range launcherArgs {
		text, isFanOut := strings.CutPrefix(word, "-f")
		if text == "" && i+1 < len(launcherArgs) {
			text = launcherArgs[i+1]
		}
		if n, err := strconv.Atoi(text); isFanOut && err == nil {
			most = n
		}
	}
	return most
}

// countedElsewhere: how many hosts a -f leaves waiting is launcher-ready's line.
func countedElsewhere(checks.View, hostfile.Note) []checks.Finding { return nil }

// pdshVariables are what pdsh reads from the environment and DeepSpeed does not
// override (it does PDSH_RCMD_TYPE and, by -f, FANOUT).
// Source: chaos/pdsh 2.34, opt.c and modules/sshcmd.c; tried with that version.
// Its NEWS dates the two time limits to 2.32.
var pdshVariables = []struct {
	Name     string
	Since    string // the pdsh that reads it first, "" for any
	Tried    bool   // the rehearsal runs with it, and says more
	Verdict  checks.Verdict
	Alters   func(value string) bool
	Summary  string
	WouldSee string
}{
	{"PDSH_COMMAND_TIMEOUT", "2.32", false, checks.Fail, ranks.IsOn, "PDSH_COMMAND_TIMEOUT ends the training after that many seconds", "HOST: command timeout"},
	{"PDSH_CONNECT_TIMEOUT", "2.32", false, checks.Warn, func(v string) bool { n, isNumber := nccl.Number(v); return isNumber && n > 0 && n < 5 },
		"PDSH_CONNECT_TIMEOUT leaves ssh less time than a busy node needs", "ssh: connect to host … port 22: Connection timed out"},
	{"PDSH_SSH_ARGS", "", true, checks.Warn, isSet, "PDSH_SSH_ARGS replaces pdsh's own -2 -a -x for ssh, so that the launch logs in otherwise than preflight did",
		"whatever ssh says with these options"},
	{"DSHPATH", "", false, checks.Warn, isSet, "DSHPATH replaces PATH on every node, so that ranks find no compiler and no tools", "ninja, nvcc or gcc: command not found"},
}

func isSet(value string) bool { return value != "" }

func pdshEnv(view checks.View, pdsh *facts.PDSH) []checks.Finding {
	var findings []checks.Finding
	for _, variable := range pdshVariables {
		value := headVariable(view, variable.Name)
		unread := pdsh != nil && variable.Since != "" && hostfile.Before(pdsh.Version, variable.Since)
		if !variable.Alters(value) || unread || variable.Tried && view.Head.Rehearsal != nil {
			continue
		}
		findings = append(findings, onHead(view, checks.Finding{
			Verdict:  variable.Verdict,
			Summary:  variable.Summary,
			Got:      variable.Name + "=" + value,
			WouldSee: variable.WouldSee,
			Remedy:   []fix.Command{fix.Here("unset %s", fix.Variable(variable.Name))},
		}))
	}
	return findings
}
