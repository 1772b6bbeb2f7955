// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"fmt"
	"path"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
)

// daemons judges what mpirun starts on every node: what is not there ends the launch with
// Open MPI, and leaves Hydra waiting for it.
func daemons(view checks.View) (findings []checks.Finding) {
	daemon := view.Launch.Daemon(view.Head)
	if daemon == "" {
		return nil
	}
	for _, node := range otherNodes(view) {
		switch {
		case node.Files == nil || node.Files.Daemon == nil || node.Files.Daemon.Asked != daemon:
			findings = append(findings, checks.UnknownFor(node, "whether it has "+daemon+", which mpirun starts there, was not seen"))
		case node.Files.Daemon.Path == "":
			findings = append(findings, lacksDaemon(view, node, daemon))
		case node.Files.Daemon.Unloadable != "":
			f := lacksDaemon(view, node, daemon)
			f.Summary = fmt.Sprintf("%s, which mpirun of the launching machine starts here, cannot be loaded", path.Base(daemon))
			f.Want = "the same MPI as on the launching machine, with its libraries"
			f.Got, f.WouldSee = node.Files.Daemon.Unloadable, fmt.Sprintf("%s: error while loading shared libraries: %s", daemon, node.Files.Daemon.Unloadable)
			f.Remedy = []fix.Command{fix.On("ldd %s | grep 'not found'", fix.Path(node.Files.Daemon.Path)), fix.On("env | grep ^LD_")}
			findings = append(findings, f)
		case path.Base(daemon) == "orted" && node.Net != nil && slices.ContainsFunc(node.Net.Interfaces, isLoopbackDown):
			findings = append(findings, checks.Finding{
				Nodes: []string{node.Name}, Summary: "the loopback interface is down, over which ranks call the orted of their node",
				Got: "lo is down", Want: "lo up", WouldSee: "a hang: the ranks there never get past MPI's init",
				Remedy: []fix.Command{fix.On("sudo ip link set lo up")},
			})
		}
	}
	return findings
}

func isLoopbackDown(i facts.Interface) bool { return i.Loopback && !i.Up }

func lacksDaemon(view checks.View, node *facts.Node, daemon string) checks.Finding {
	f := checks.Finding{
		Nodes: []string{node.Name}, Summary: fmt.Sprintf("there is no %s, which mpirun of the launching machine starts here", daemon),
		Want: "the same MPI where the launching machine has it", WouldSee: fmt.Sprintf("a hang, after: bash: line 1: %s: No such file or directory", daemon),
		Remedy: []fix.Command{fix.On("ls -l %s", fix.Path(path.Dir(daemon)))},
	}
	packages := fix.Install(fix.On, remedy.SystemOf(node), "mpich", "mpich")
	if path.Base(daemon) == "orted" {
		f.WouldSee = "ORTE was unable to reliably start one or more daemons."
		packages = fix.Install(fix.On, remedy.SystemOf(node), "openmpi-bin", "openmpi")
	}
	switch {
	case daemon == "orted":
		f.Summary = "orted, which mpirun starts here, is not in PATH of a session that is not interactive"
		f.Want = "the same Open MPI as on the launching machine, its bin in that PATH"
		f.Remedy = append([]fix.Command{fix.On("ls /opt/*/bin/orted /usr/local/bin/orted   # its directory goes into PATH in ~/.bashrc, above where that returns for sessions that are not interactive"),
			fix.Here("deepspeed --launcher_args '--prefix DIR' …   # where orted is DIR/bin/orted on every node")}, packages...)
	case path.Dir(daemon) == "/usr/bin":
		f.Remedy = packages
	}
	return f
}

// otherNodes are those that were reached and are not the launching machine.
func otherNodes(view checks.View) (others []*facts.Node) {
	here, _ := ranks.HeadNode(view)
	for _, node := range view.Nodes {
		if node.Reached && (here == nil || node.Name != here.Name) {
			others = append(others, node)
		}
	}
	return others
}
