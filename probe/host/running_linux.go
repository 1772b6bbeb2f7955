// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/probe/machine"
)

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
