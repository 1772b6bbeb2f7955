// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
)

// containerFiles lists files that runtimes leave in their containers. An image may contain the file
// of the runtime from which it was exported, so the outermost kind comes first. The disk of a
// virtual machine may also have been made from an image with such files. So if a runtime always
// uses separate namespaces, its file alone proves nothing.
var containerFiles = []struct {
	path, kind string
	namespaces bool
}{
	{"/var/run/secrets/kubernetes.io", "kubernetes", false}, // the service account of every pod
	{"/.singularity.d", "apptainer", false},                 // for Apptainer and Singularity
	{"/run/.containerenv", "podman", true},
	{"/.dockerenv", "docker", true},
}

// container returns the kind of container in which this process runs, or "" if nothing indicates
// one.
func container(o machine.Options) string {
	groups, _ := os.ReadFile(o.At("/proc/1/cgroup")) // an unreadable file indicates nothing
	if kind := parseContainerGroup(string(groups)); kind != "" {
		return kind
	}
	// enroot mounts /.lock separately (NVIDIA/enroot, src/runtime.sh).
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
	// First come the two files in which systemd notes what started it. The last sign is the
	// variable that runtimes set by convention, and that only root may read.
	for _, path := range []string{"/run/host/container-manager", "/run/systemd/container"} {
		if kind := machine.Line(o.At(path)); kind != "" {
			return kind
		}
	}
	environ, _ := os.ReadFile(o.At("/proc/1/environ"))
	return parseContainerVariable(environ)
}

// inNamespaces reports whether this process's PID or host-name namespace differs from the
// machine's.
func inNamespaces(o machine.Options) bool {
	pid, _ := os.Readlink(o.At("/proc/self/ns/pid"))
	uts, _ := os.Readlink(o.At("/proc/self/ns/uts"))
	return pid != machine.InitialPID || uts != machine.InitialUTS
}

// onOwnDisk reports whether the root directory is the top directory of a disk. Runtimes put
// containers on layers, or on a directory or volume of a disk.
func onOwnDisk(o machine.Options) bool {
	table, err := machine.Mounts(o)
	if err != nil {
		return false
	}
	root := machine.MountOf(table, "/")
	return root != nil && root.Root == "/" && strings.HasPrefix(root.Source, "/dev/") && !strings.HasPrefix(root.Source, "/dev/mapper/docker-")
}

// parseContainerGroup returns the kind of container from the cgroup of process 1. It finds nothing
// if the runtime hides the cgroup in a cgroup namespace.
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

// mostRunning is the maximum number of containers, and of launches, to report. No node of a launch
// runs so many.
const mostRunning = 32

// running returns the containers and DeepSpeed launches on this machine, and whether firewalld runs.
// A container is found by the monitor process that an engine runs for it. running asks an engine
// only for the names of containers that may be those of the ranks. Processes of other users may be
// hidden, by the mount option hidepid.
func running(ctx context.Context, o machine.Options) (containers []facts.RunningContainer, launches []facts.RunningLaunch, hasFirewalld bool) {
	for _, pid := range machine.Processes(o) {
		comm := machine.ProcessName(o, pid)
		hasFirewalld = hasFirewalld || comm == facts.Firewalld
		isMonitor := comm == "conmon" || strings.HasPrefix(comm, "containerd-shim")
		if !isMonitor && !strings.HasPrefix(comm, "python") {
			continue
		}
		proc := o.At("/proc/" + strconv.Itoa(pid))
		line, _ := os.ReadFile(proc + "/cmdline")
		argv := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		if !isMonitor {
			if info, err := os.Stat(proc); err == nil && isDeepSpeed(argv) && len(launches) < mostRunning {
				launches = append(launches, facts.RunningLaunch{PID: pid, User: machine.Owner(o, ownerOf(info)), Interpreter: argv[0], Script: scriptOf(argv)})
			}
			continue
		}
		engine, name := parseBeside(argv)
		isSame := func(c facts.RunningContainer) bool { return c.Engine == engine && c.Name == name }
		if engine == "" || len(containers) == mostRunning || slices.ContainsFunc(containers, isSame) { // podman also has a monitor for each exec
			continue
		}
		children := machine.Line(proc + "/task/" + strconv.Itoa(pid) + "/children")
		containers = append(containers, lookInto(o, machine.FirstWord(children), facts.RunningContainer{Engine: engine, Name: name}))
	}
	for i := range containers {
		if c := &containers[i]; c.Engine != "podman" && (c.Unseen || c.Interpreter || c.WorkDir || c.Torch) {
			c.Name = cmp.Or(nameOf(ctx, *c), c.Name)
		}
	}
	return containers, launches, hasFirewalld
}

// nameOf asks the engine for the name of a container. It returns "" if the engine does not answer,
// as for users who may not contact it.
func nameOf(ctx context.Context, c facts.RunningContainer) string {
	program, err := exec.LookPath(c.Engine)
	if err != nil {
		return ""
	}
	engine := hostsys.Child{Path: program, Args: []string{"inspect", "--type", "container", "--format", "{{.Name}}", c.Name}, Limit: engineLimit}
	answer, _, err := engine.Run(ctx)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSpace(answer), "/") // docker's names begin with a slash
}

// engineLimit is the time limit for an answer of a container engine.
const engineLimit = 2 * time.Second

// isDeepSpeed reports whether a process is the one with which DeepSpeed starts the ranks of a node.
//
// Source: deepspeed/launcher/multinode_runner.py, PDSHRunner.get_cmd, 0.15.1 and 0.19.8.
func isDeepSpeed(argv []string) bool {
	return len(argv) > 4 && slices.Equal(argv[1:4], []string{"-u", "-m", "deepspeed.launcher.launch"})
}

// scriptOf returns the script of DeepSpeed's process on a node, without its arguments. It is "" if
// it cannot be told.
func scriptOf(argv []string) string {
	for _, word := range argv[4:] {
		if !strings.HasPrefix(word, "-") {
			return word
		}
	}
	return ""
}

func ownerOf(info os.FileInfo) int {
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		return int(stat.Uid)
	}
	return -1
}

// parseBeside reads the command line of a monitor process. It returns the engine that made the
// container, and the name with which to enter the container. The name is "" for pods, which other
// programs enter.
//
// Sources: containers/podman 4.3, libpod/oci_conmon_common.go, sharedConmonArgs; containerd 1.7,
// pkg/shim/util_unix.go; moby's namespace is "moby".
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

// torches lists the paths where images have torch, relative to the root directory.
var torches = []string{"usr/local/lib/python3*/*-packages/torch/version.py", "usr/lib/python3*/*-packages/torch/version.py", "opt/*/lib/python3*/site-packages/torch/version.py"}

// lookInto determines which parts of the launch a container has. It reads the container through the
// root directory of one of its processes. Only the owner of that process, or root, may read it.
func lookInto(o machine.Options, pid string, c facts.RunningContainer) facts.RunningContainer {
	root := o.At("/proc/" + pid + "/root")
	if _, err := os.ReadDir(root); pid == "" || err != nil {
		c.Unseen = true
		return c
	}
	// The target of a link in the container is also in the container. From outside, the link would
	// lead to another file.
	has := func(named string) bool {
		_, err := os.Lstat(filepath.Join(root, named))
		return path.IsAbs(named) && err == nil
	}
	c.Interpreter, c.WorkDir = has(o.Interpreter), has(o.WorkDir)
	c.Torch = slices.ContainsFunc(torches, func(pattern string) bool {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // fails only on an invalid pattern
		return found != nil
	})
	return c
}
