package launcher

import (
	"fmt"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch"
)

var Ready = checks.Check{
	ID:       "launcher-ready",
	Title:    "the launcher is on the launching machine and works as DeepSpeed calls it",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Volatile: true,
	Doc: "DeepSpeed tests the first host with the ssh client and then starts pdsh, or another launcher's program, from PATH of the machine it is typed on; " +
		"nodes need none of them. pdsh must find its ssh module in directories that only root or the user may write to, " +
		"and takes at most 1024 hosts at a time; variables it reads from the environment change the launch. That pdsh is run over up to 16 nodes, an echo in " +
		"place of the training, and what it gets is held against preflight's own logins; over more it is run with --only launcher-ready alone, and otherwise " +
		"nothing is said of what it would get. Of the MPI launchers only their programs here are looked at: " +
		"whether orted or hydra's proxy is in PATH of a session on every node, and whether mpiname says MVAPICH2-GDR, is not.",
	WouldSee: "RuntimeError: launcher 'pdsh' not installed.",
	Run:      judgeLauncher,
}

func judgeLauncher(view checks.View) []checks.Finding {
	if view.Launch.Torchrun() {
		return checks.Skipped("torchrun is started on every node: there is no launcher")
	}
	findings := append(programFindings(view), sshClient(view)...)
	switch by := view.Launch.StartedBy(); {
	case view.Launch.NoSSH && findings == nil:
		return checks.Skipped("--no_ssh: every node is started by hand, without a launcher")
	case view.Launch.Local && findings == nil:
		return checks.Skipped("one active host: DeepSpeed starts the ranks itself, without a launcher")
	case view.Launch.NoSSH, view.Launch.Local:
	case by.PDSH:
		findings = append(findings, pdshFindings(view, view.Head.Launcher.PDSH)...)
	case by.Name != "":
		findings = append(findings, backendFindings(view, by)...)
	default:
		findings = append(findings, onHead(view, checks.Finding{
			Summary:  fmt.Sprintf("DeepSpeed knows no launcher %q", view.Launch.Launcher),
			Want:     "one of " + strings.Join(launch.LauncherNames(), ", "),
			WouldSee: "NotImplementedError: Unknown launcher " + view.Launch.Launcher,
			Remedy:   []fix.Command{fix.Here("deepspeed --launcher=%s …", fix.Name(launch.DefaultLauncher))},
		}))
	}
	return findings
}

// sshClient: DeepSpeed asks the first host of any hostfile by ssh, whatever
// starts the ranks. Without a hostfile there is nobody to ask.
func sshClient(view checks.View) []checks.Finding {
	noHostfile := view.Launch.Local && len(view.Launch.Hosts) == 1 && view.Launch.Hosts[0].Line == 0
	byHand := view.Launch.NoSSH && view.Launch.MasterAddr != ""
	if view.Head.Launcher.SSHPath != "" || noHostfile || byHand {
		return nil
	}
	return []checks.Finding{onHead(view, checks.Finding{
		Summary:  "there is no ssh client on the launching machine",
		WouldSee: "FileNotFoundError: [Errno 2] No such file or directory: 'ssh'",
		Remedy:   fix.Install(fix.Here, remedy.SystemOf(view.Head), "openssh-client", "openssh-clients"),
	})}
}

// programFindings judges what the command begins with. Where no command was
// given, the launch may be typed elsewhere.
func programFindings(view checks.View) []checks.Finding {
	program, python := view.Launch.Program, view.Head.Python
	f := checks.Finding{
		Nodes: []string{view.Head.Name}, Summary: fmt.Sprintf("there is no %s on the launching machine", program), Want: "the environment active that has it",
		WouldSee: fmt.Sprintf("bash: %s: command not found", program), Remedy: []fix.Command{fix.Here("source VENV/bin/activate   # the environment that has %s", fix.Text(program)), fix.Here("pip install %s", fix.Package(program))},
	}
	switch {
	case view.Launch.Script == "":
		return nil
	case view.Head.Launcher.DeepSpeed == "":
	case python != nil && python.Found && python.Problem == "" && len(python.Packages) > 0 && python.Packages["deepspeed"] == "":
		f.Summary = "the launch's interpreter has no deepspeed on the launching machine"
		f.Got = python.Executable
		f.WouldSee = "ModuleNotFoundError: No module named 'deepspeed'"
		f.Remedy = []fix.Command{fix.Here("%s -m pip install deepspeed", fix.Path(python.Executable))}
	default:
		return nil
	}
	return []checks.Finding{f}
}

// onHead makes a finding one of the launching machine. Who has no deepspeed
// there may be on the wrong machine altogether.
func onHead(view checks.View, f checks.Finding) checks.Finding {
	f.Nodes = []string{view.Head.Name}
	if view.Head.Launcher.DeepSpeed == "" && view.Launch.Script == "" && f.Verdict != checks.Warn {
		f.Summary += "; nor is there a deepspeed: if the launch is typed on another machine, run preflight there"
	}
	return f
}
