// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"os"
	"strings"

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
