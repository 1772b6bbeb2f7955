package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
)

// driverBack installs the version that was there.
func driverBack(_ View, node *facts.Node, changes []Change) []string {
	at := slices.IndexFunc(changes, func(c Change) bool {
		return (c.Fact == "nvml.driver" || c.Fact == "gpu.module") && unquoted(string(c.Before)) != ""
	})
	if at < 0 || node.NVML == nil {
		return nil
	}
	kind := ""
	if node.GPU != nil && node.GPU.OpenModule {
		kind = "open"
	}
	return []string{exactDriver(node, unquoted(string(changes[at].Before)), kind)}
}

// packagesBack has pip install what was there, and remove what was not.
func packagesBack(view View, node *facts.Node, changes []Change) []string {
	var d difference
	for _, c := range changes {
		if name, is := strings.CutPrefix(c.Fact, packagePath("")); is && node.Python.Found {
			d.Deviations = append(d.Deviations, deviation{Name: name, Want: unquoted(string(c.Before))})
		}
	}
	if d.Deviations == nil {
		return nil
	}
	return pipFix(view, d)
}

// mtuBack sets the MTU that an interface had. One that came or went has none to go back to.
func mtuBack(_ View, _ *facts.Node, changes []Change) (fix []string) {
	for _, c := range changes {
		if !c.came() && !c.gone() {
			name := mtuFact.FindStringSubmatch(c.Fact)[1]
			fix = append(fix, fmt.Sprintf("{ssh} sudo ip link set dev %s mtu %d   # until the next boot", remoteWord(name), sizeIn(c.Before)))
		}
	}
	return fix
}

// shmBack makes it as large as it was.
func shmBack(_ View, node *facts.Node, changes []Change) []string {
	at := slices.IndexFunc(changes, func(c Change) bool { return c.Fact == "shm.size" })
	if at < 0 || !breaks(node, changes[at]) {
		return nil
	}
	return enlargeSHM(node, sizeIn(changes[at].Before))
}
