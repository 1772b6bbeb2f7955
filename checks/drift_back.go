package checks

import (
	"slices"
	"strings"

	"preflight/checks/fix"
)

// driverBack installs the version that was there.
func driverBack(d deed) []fix.Command {
	at := slices.IndexFunc(d.changes, func(c Change) bool {
		return (c.Fact == "nvml.driver" || c.Fact == "gpu.module") && unquoted(string(c.Before)) != ""
	})
	if at < 0 || d.node.NVML == nil {
		return nil
	}
	kind := ""
	if d.node.GPU != nil && d.node.GPU.OpenModule {
		kind = "open"
	}
	return []fix.Command{howInstalled, exactDriver(d.node, unquoted(string(d.changes[at].Before)), kind)}
}

// gpusBack is for what is out of order where no check of this run has said so; of other
// changes only a person can tell.
func gpusBack(d deed) []fix.Command {
	failed := func(c Change) bool { return failures.MatchString(c.Fact) && c.came() }
	if !slices.ContainsFunc(d.changes, failed) || d.view.Reported("gpu-healthy")[d.node.Name] {
		return nil
	}
	return []fix.Command{fix.Here("preflight checks gpu-healthy   # what finds and mends it: until then a new baseline takes the fault for what is good")}
}

// packagesBack has pip install what was there, and remove what was not.
func packagesBack(d deed) []fix.Command {
	var unlike difference
	for _, c := range d.changes {
		if name, is := strings.CutPrefix(c.Fact, packagePath("")); is && d.node.Python.Found {
			unlike.Deviations = append(unlike.Deviations, deviation{Name: name, Want: unquoted(string(c.Before))})
		}
	}
	if unlike.Deviations == nil {
		return nil
	}
	return pipFix(d.view, unlike)
}

// mtuBack sets the MTU that an interface had. One that came or went has none to go back to.
func mtuBack(d deed) (commands []fix.Command) {
	for _, c := range d.changes {
		if !c.came() && !c.gone() {
			name := mtuFact.FindStringSubmatch(c.Fact)[1]
			commands = append(commands, fix.On("sudo ip link set dev %s mtu %s   # until the next boot", fix.Name(name), fix.Number(sizeIn(c.Before))))
		}
	}
	return commands
}

// shmBack makes it as large as it was, to the byte: what is rounded has changed as well.
func shmBack(d deed) []fix.Command {
	at := slices.IndexFunc(d.changes, func(c Change) bool { return c.Fact == "shm.size" })
	if at < 0 || !breaks(d.node, d.changes[at]) {
		return nil
	}
	commands := sizeSHM(d.node, sizeIn(d.changes[at].Before), "")
	if d.view.Reported("shm-size")[d.node.Name] {
		for i := range commands {
			commands[i] = commands[i].Remark("in place of what shm-size says, if that is smaller")
		}
	}
	return commands
}
