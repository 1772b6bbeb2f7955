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

// daemons checks the program that mpirun starts on every node. If the program is missing, Open MPI
// ends the launch, and Hydra waits for the program.
func daemons(view checks.View) (findings []checks.Finding) {
	daemon := view.Launch.Daemon(view.Head)
	if daemon == "" {
		return nil
	}
	for _, node := range otherNodes(view) {
		switch {
		case node.Files == nil || node.Files.Daemon == nil || node.Files.Daemon.Asked != daemon:
			findings = append(findings, checks.UnknownFor(node, "preflight did not look for "+daemon+", which mpirun starts on the node"))
		case node.Files.Daemon.Path == "":
			findings = append(findings, lacksDaemon(view, node, daemon))
		case node.Files.Daemon.Unloadable != "":
			f := lacksDaemon(view, node, daemon)
			f.Summary = fmt.Sprintf("%s, which mpirun starts on the node, cannot be loaded", path.Base(daemon))
			f.Want = "the same MPI as on the launching machine, with its libraries"
			f.Got, f.WouldSee = node.Files.Daemon.Unloadable, fmt.Sprintf("%s: error while loading shared libraries: %s", daemon, node.Files.Daemon.Unloadable)
			f.Remedy = []fix.Command{fix.On("ldd %s | grep 'not found'", fix.Path(node.Files.Daemon.Path)).As(fix.Look), fix.On("env | grep ^LD_").As(fix.Look)}
			findings = append(findings, f)
		case path.Base(daemon) == "orted" && node.Net != nil && slices.ContainsFunc(node.Net.Interfaces, isLoopbackDown):
			findings = append(findings, checks.Finding{
				Nodes: []string{node.Name}, Summary: "the loopback interface is down, which ranks need to reach orted",
				Got: "lo is down", Want: "lo up", WouldSee: "a hang: the ranks of the node never finish MPI_Init",
				Remedy: []fix.Command{fix.On("sudo ip link set lo up")},
			})
		}
	}
	return findings
}

func isLoopbackDown(i facts.Interface) bool { return i.Loopback && !i.Up }

func lacksDaemon(view checks.View, node *facts.Node, daemon string) checks.Finding {
	f := checks.Finding{
		Nodes: []string{node.Name}, Summary: fmt.Sprintf("%s, which mpirun starts on the node, is missing", daemon),
		Want: "the same MPI at the same path as on the launching machine", WouldSee: fmt.Sprintf("a hang, after: bash: line 1: %s: No such file or directory", daemon),
		Remedy: []fix.Command{fix.On("ls -l %s", fix.Path(path.Dir(daemon))).As(fix.Look)},
	}
	packages := fix.Install(fix.On, remedy.SystemOf(node), "mpich", "mpich")
	if path.Base(daemon) == "orted" {
		f.WouldSee = "ORTE was unable to reliably start one or more daemons."
		packages = fix.Install(fix.On, remedy.SystemOf(node), "openmpi-bin", "openmpi")
	}
	switch {
	case daemon == "orted":
		f.Summary = "orted, which mpirun starts on the node, is not in PATH of ssh commands"
		f.Want = "the same Open MPI as on the launching machine, with its bin directory in that PATH"
		f.Remedy = append([]fix.Command{fix.On("ls /opt/*/bin/orted /usr/local/bin/orted   # add its directory to PATH at the top of ~/.bashrc, before the test for interactive shells").As(fix.Look),
			fix.Here("deepspeed --launcher_args '--prefix DIR' …   # if orted is DIR/bin/orted on every node").As(fix.Or)}, packages...)
	case path.Dir(daemon) == "/usr/bin":
		f.Remedy = packages
	}
	return f
}

// otherNodes returns the reached nodes without the launching machine.
func otherNodes(view checks.View) (others []*facts.Node) {
	here, _ := ranks.HeadNode(view)
	for _, node := range view.Nodes {
		if node.Reached && (here == nil || node.Name != here.Name) {
			others = append(others, node)
		}
	}
	return others
}
