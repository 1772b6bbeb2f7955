// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/probe/machine"
)

// containerFiles are what the runtimes leave in the containers they make. An
// image carries files of the runtime it was exported from, so the outermost
// kind comes first; and one that became the disk of a virtual machine still
// carries them, so where a runtime always gives a container namespaces of its
// own, the file alone proves nothing.
var containerFiles = []struct {
	path, kind string
	namespaces bool
}{
	{"/var/run/secrets/kubernetes.io", "kubernetes", false}, // the service account of every pod
	{"/.singularity.d", "apptainer", false},                 // both of its names
	{"/run/.containerenv", "podman", true},
	{"/.dockerenv", "docker", true},
}

// container is the kind of container we are in, "" when there is no mark of one.
func container(o machine.Options) string {
	groups, _ := os.ReadFile(o.At("/proc/1/cgroup")) // unreadable is no mark
	if kind := parseContainerGroup(string(groups)); kind != "" {
		return kind
	}
	// enroot holds /.lock by a mount of its own (NVIDIA/enroot, src/runtime.sh).
	if table, err := machine.Mounts(o); err == nil {
		if m := machine.MountOf(table, "/.lock"); m != nil && m.MountPoint == "/.lock" {
			return "enroot"
		}
	}
	for _, file := range containerFiles {
		if machine.Exists(o.At(file.path)) && (!file.namespaces || inNamespaces(o) && !onOwnDisk(o)) {
			return file.kind
		}
	}
	// systemd's own two notes on what started it, then the variable that is the
	// convention among runtimes and that only root may read.
	for _, path := range []string{"/run/host/container-manager", "/run/systemd/container"} {
		if kind := machine.Line(o.At(path)); kind != "" {
			return kind
		}
	}
	environ, _ := os.ReadFile(o.At("/proc/1/environ"))
	return parseContainerVariable(environ)
}

// inNamespaces is whether the processes or the host name here are not the
// machine's own.
func inNamespaces(o machine.Options) bool {
	pid, _ := os.Readlink(o.At("/proc/self/ns/pid"))
	uts, _ := os.Readlink(o.At("/proc/self/ns/uts"))
	return pid != machine.InitialPID || uts != machine.InitialUTS
}

// onOwnDisk is whether the root directory is the top of a disk. Runtimes put
// containers on layers, or on a directory or volume of a disk.
func onOwnDisk(o machine.Options) bool {
	table, err := machine.Mounts(o)
	if err != nil {
		return false
	}
	root := machine.MountOf(table, "/")
	return root != nil && root.Root == "/" && strings.HasPrefix(root.Source, "/dev/") && !strings.HasPrefix(root.Source, "/dev/mapper/docker-")
}

// parseContainerGroup tells the kind from the cgroup that process 1 is in,
// where the runtime does not hide it in a cgroup namespace.
func parseContainerGroup(groups string) string {
	for _, mark := range []struct{ part, kind string }{
		{"/kubepods", "kubernetes"},
		{"/libpod-", "podman"},
		{"/docker/", "docker"},
		{"/docker-", "docker"}, // with the systemd cgroup driver
		{"/lxc/", "lxc"},
		{"/lxc.payload", "lxc"},
	} {
		if strings.Contains(groups, mark.part) {
			return mark.kind
		}
	}
	return ""
}

// parseContainerVariable reads container=KIND from an environment block.
func parseContainerVariable(environ []byte) string {
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if kind, found := bytes.CutPrefix(variable, []byte("container=")); found {
			return string(kind)
		}
	}
	return ""
}

// mostContainers is more than a node of a launch runs.
const mostContainers = 32

// runningContainers are those that run on this machine, by the process that their engine
// leaves beside each: nobody is asked, and no right to ask an engine is needed.
func runningContainers(o machine.Options) (running []facts.RunningContainer) {
	processes, _ := os.ReadDir(o.At("/proc")) // none are seen then
	for _, process := range processes {
		pid := process.Name()
		if _, err := strconv.Atoi(pid); err != nil || len(running) == mostContainers {
			continue
		}
		comm := machine.Line(o.At("/proc/" + pid + "/comm"))
		if comm != "conmon" && !strings.HasPrefix(comm, "containerd-shim") {
			continue
		}
		line, _ := os.ReadFile(o.At("/proc/" + pid + "/cmdline"))
		engine, name := parseBeside(strings.Split(string(line), "\x00"))
		is := func(c facts.RunningContainer) bool { return c.Engine == engine && c.Name == name }
		if engine == "" || slices.ContainsFunc(running, is) { // podman has one for each exec as well
			continue
		}
		children := machine.Line(o.At("/proc/" + pid + "/task/" + pid + "/children"))
		running = append(running, lookInto(o, machine.FirstWord(children), facts.RunningContainer{Engine: engine, Name: name}))
	}
	return running
}

// parseBeside reads from the command line of the process beside a container who made it
// and by what it is entered, "" for pods, which other programs enter.
//
// Sources: containers/podman 4.3, libpod/oci_conmon_common.go, sharedConmonArgs;
// containerd 1.7, pkg/shim/util_unix.go; moby's namespace is "moby".
func parseBeside(argv []string) (engine, name string) {
	value := func(option string) string {
		if at := slices.Index(argv, option); at >= 0 && at+1 < len(argv) {
			return argv[at+1]
		}
		return ""
	}
	switch {
	case slices.ContainsFunc(argv, func(word string) bool { return path.Base(word) == "podman" }):
		return "podman", value("-n")
	case value("-namespace") == "moby" && len(value("-id")) > 12:
		return "docker", value("-id")[:12]
	case value("-namespace") != "" && value("-namespace") != "k8s.io" && len(value("-id")) > 12:
		return "nerdctl", value("-id")[:12]
	}
	return "", ""
}

// torches are where an image has torch, below its root.
var torches = []string{"usr/local/lib/python3*/*-packages/torch/version.py", "usr/lib/python3*/*-packages/torch/version.py", "opt/*/lib/python3*/site-packages/torch/version.py"}

// lookInto tells what a container has of the launch, by the root of a process of it. Whose
// process that is, or root, may look.
func lookInto(o machine.Options, pid string, c facts.RunningContainer) facts.RunningContainer {
	root := o.At("/proc/" + pid + "/root")
	if _, err := os.ReadDir(root); pid == "" || err != nil {
		c.Unseen = true
		return c
	}
	// A link within is of the inside: where it leads from here is another file.
	has := func(named string) bool {
		_, err := os.Lstat(filepath.Join(root, named))
		return path.IsAbs(named) && err == nil
	}
	c.Interpreter, c.WorkDir = has(o.Interpreter), has(o.WorkDir)
	c.Torch = slices.ContainsFunc(torches, func(pattern string) bool {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // fails for a pattern that is none
		return found != nil
	})
	return c
}
