package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
)

var launcherReady = Check{
	ID:       "launcher-ready",
	Title:    "the launcher is on the launching machine and works as DeepSpeed calls it",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Doc: "DeepSpeed tests the first host with the ssh client and then starts pdsh, or another launcher's program, from PATH of the machine it is typed on; " +
		"nodes need none of them. pdsh must find its ssh module in directories that only root or the user may write to, " +
		"and takes at most 1024 hosts at a time; variables it reads from the environment change the launch.",
	WouldSee: "RuntimeError: launcher 'pdsh' not installed.",
	Run:      judgeLauncher,
}

// programs are what DeepSpeed looks for, and what it then runs.
// Source: deepspeed/launcher/multinode_runner.py, backend_exists and get_cmd, 0.19.6 of development.
var programs = map[string][]string{
	"openmpi": {"ompi_info", "mpirun"},
	"mpich":   {"mpirun"},
	"impi":    {"mpirun"},
	"mvapich": {"mpiname", "mpirun"},
	"slurm":   {"sinfo", "srun"},
}

func judgeLauncher(view View) []Finding {
	seen, name := view.Head.Launcher, view.Launch.Launcher
	var findings []Finding
	if seen.SSHPath == "" {
		findings = append(findings, onHead(view, Finding{
			Summary:  "there is no ssh client on the launching machine",
			WouldSee: "FileNotFoundError: [Errno 2] No such file or directory: 'ssh'",
			Fix:      installFix(view, "openssh-client", "openssh-clients"),
		}))
	}
	needed, isOther := programs[name]
	switch {
	case view.Launch.Local && findings == nil:
		return skip("one active host: DeepSpeed starts the ranks itself, without a launcher")
	case view.Launch.Local:
	case name == "pdsh":
		findings = append(findings, pdshFindings(view, seen.PDSH)...)
	case isOther:
		findings = append(findings, programFindings(view, name, needed)...)
	default:
		findings = append(findings, onHead(view, Finding{
			Summary:  fmt.Sprintf("DeepSpeed knows no launcher %q", name),
			Want:     "pdsh, openmpi, mpich, impi, mvapich or slurm",
			WouldSee: "NotImplementedError: Unknown launcher " + name,
			Fix:      []string{"deepspeed --launcher=pdsh …"},
		}))
	}
	return findings
}

func programFindings(view View, name string, needed []string) []Finding {
	var findings []Finding
	for _, program := range needed {
		if view.Head.Launcher.Backends[program] != "" {
			continue
		}
		findings = append(findings, onHead(view, Finding{
			Summary:  fmt.Sprintf("launcher %s needs %s, which is not in PATH of the launching machine", name, program),
			Want:     "its environment module loaded, or its directory in PATH",
			WouldSee: fmt.Sprintf("RuntimeError: launcher '%s' not installed.", name),
			Fix:      []string{"command -v " + program, "deepspeed --launcher=pdsh …"},
		}))
		break // the others come with it
	}
	return findings
}

// onHead makes a finding one of the launching machine. Who has no deepspeed
// there may be on the wrong machine altogether.
func onHead(view View, f Finding) Finding {
	f.Nodes = []string{view.Head.Name}
	if view.Head.Launcher.DeepSpeed == "" && f.Verdict != Warn {
		f.Summary += "; nor is there a deepspeed: if the launch is typed on another machine, run preflight there"
	}
	return f
}

// installFix installs a package by the distribution's own tool: its names with
// apt and with dnf.
func installFix(view View, apt string, dnf ...string) []string {
	withAPT := "sudo apt-get install -y " + apt
	withDNF := "sudo dnf install -y " + strings.Join(dnf, " ")
	host := view.Head.Host
	is := func(families ...string) bool {
		return host != nil && slices.ContainsFunc(families, func(name string) bool { return strings.Contains(host.OS, name) })
	}
	switch {
	case is("Debian", "Ubuntu"):
		return []string{withAPT}
	case is("Red Hat", "Rocky", "AlmaLinux", "CentOS", "Fedora", "Oracle", "Amazon"):
		return []string{withDNF}
	}
	return []string{withAPT, withDNF}
}
