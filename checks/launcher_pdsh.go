package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
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
			Remedy:  fix.Install(fix.Here, systemOf(view.Head), "pdsh", "pdsh", "pdsh-rcmd-ssh"),
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
			f.Remedy = append(f.Remedy, fix.Here("sudo chown root:root %s && sudo chmod go-w %[1]s", fix.Path(directory)))
		}
		add(f)
	case !slices.Contains(pdsh.Modules, "ssh") && pdsh.Problem != "":
		add(Finding{
			Summary:  "pdsh cannot load its modules",
			Got:      pdsh.Problem,
			WouldSee: pdsh.Problem,
			Remedy:   []fix.Command{fix.Here("%s -V", fix.Path(pdsh.Path))},
		})
	case !slices.Contains(pdsh.Modules, "ssh"):
		add(Finding{
			Summary:  "pdsh has no ssh module",
			Got:      "modules " + strings.Join(pdsh.Modules, ", "),
			WouldSee: `pdsh: No such rcmd module "ssh"`,
			Remedy:   fix.Install(fix.Here, systemOf(view.Head), "pdsh", "pdsh-rcmd-ssh"),
		})
	}
	if hosts, most := len(view.Launch.Hosts), fanOut(view.Launch.LauncherArgs); hosts > most {
		add(Finding{
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
func countedElsewhere(View, hostfile.Note) []Finding { return nil }
