// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"fmt"
	"testing"

	"preflight/facts"
	"preflight/launch"
	"preflight/testhosts/fleettest"
)

// TestNothingIsFoundOnHealthyFleets expects no findings on healthy fleets of all sizes, with all
// launchers and accelerators.
func TestNothingIsFoundOnHealthyFleets(t *testing.T) {
	for _, by := range launch.Launchers {
		for _, accelerator := range []string{"cuda", "cpu"} {
			for _, size := range []int{1, 2, 4, 128} {
				t.Run(fmt.Sprintf("%s/%s/%d", by.Name, accelerator, size), func(t *testing.T) {
					fleet := fleettest.Healthy(size)
					fleet.Launch.Launcher, fleet.Launch.Accelerator = by.Name, accelerator
					fleet.Head.Launcher.Backends = map[string]string{}
					for _, program := range by.Programs {
						fleet.Head.Launcher.Backends[program] = "/usr/bin/" + program
					}
					if by.MPIRun != "" {
						fleet.Head.Launcher.MPIRun = &facts.MPIRun{Version: "1.0", Options: by.MPIRun, Daemon: "/usr/bin/daemon"}
					}
					daemon, callBack := fleet.Launch.Daemon(fleet.Head), fleet.Launch.CallBack(fleet.Head).Name
					for i := range fleet.Nodes {
						fleet.Nodes[i].Files.Daemon = &facts.Daemon{Asked: daemon, Path: daemon}
						if callBack != "" {
							fleet.Nodes[i].Names.Lookups = append(fleet.Nodes[i].Names.Lookups, facts.Lookup{Name: callBack, Addresses: []string{fleet.Nodes[0].Address}})
						}
					}
					report := judged(fleet, Catalogue...)
					if len(report.Findings) > 0 || report.ExitCode != 0 {
						t.Errorf("exit %d:\n%s", report.ExitCode, fleettest.Spelled(report.Findings))
					}
				})
			}
		}
	}
}
