// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

const (
	// fabricLimit is for each of the two programs that are asked.
	fabricLimit = time.Second
	// fabricComm is nv-fabricmanager in the process table, which keeps 15 characters.
	fabricComm = "nv-fabricmanage"
)

// fabricVersion is in "Fabric Manager version is : 550.54.15".
var fabricVersion = lazyregexp.New(`[Vv]ersion is\s*:?\s*(\d+(?:\.\d+)+)`)

// fabricManager looks for the service that configures NVSwitches, nil where there
// is neither it nor a switch that shows. In a container it runs outside, and where
// only the machine sees it.
func fabricManager(ctx context.Context, o machine.Options, switches int) *facts.FabricManager {
	program := serviceProgram(o, "nv-fabricmanager")
	if program == "" && switches == 0 {
		return nil
	}
	manager := &facts.FabricManager{Installed: program != "", Running: processRuns(o, fabricComm)}
	var asking sync.WaitGroup
	if program != "" {
		asking.Go(func() {
			output, _, _ := hostsys.Child{Path: program, Args: []string{"--version"}, Limit: fabricLimit}.Run(ctx)
			if match := fabricVersion.FindStringSubmatch(output); match != nil {
				manager.Version = match[1]
			}
		})
	}
	asking.Go(func() { manager.State = unitState(ctx, o, "nvidia-fabricmanager") })
	asking.Wait()
	return manager
}

// serviceProgram is a service's, by PATH or where NVIDIA's packages put it; "" for none.
func serviceProgram(o machine.Options, name string) string {
	for _, place := range []string{name, o.At("/usr/bin/" + name), o.At("/usr/sbin/" + name), o.At("/usr/local/bin/" + name)} {
		if path, err := exec.LookPath(place); err == nil {
			return path
		}
	}
	return ""
}

// unitState is systemd's word for a unit, "" where systemd did not start the
// machine (sd_booted(3)) or does not answer in time.
func unitState(ctx context.Context, o machine.Options, unit string) string {
	if !machine.Exists(o.At("/run/systemd/system")) {
		return ""
	}
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		return ""
	}
	// The name stays in the answer: leaving it out takes systemd 230.
	output, _, _ := hostsys.Child{Path: systemctl, Args: []string{"show", "-p", "ActiveState", unit}, Limit: fabricLimit}.Run(ctx)
	_, state, _ := strings.Cut(strings.TrimSpace(output), "ActiveState=")
	return machine.Clipped(state)
}

// processRuns is whether a process of that name is seen.
func processRuns(o machine.Options, comm string) bool {
	entries, _ := os.ReadDir(o.At("/proc")) // none: nobody is seen
	for _, entry := range entries {
		if name := entry.Name(); name[0] >= '0' && name[0] <= '9' && machine.Line(o.At(filepath.Join("/proc", name, "comm"))) == comm {
			return true
		}
	}
	return false
}

// switchDoors are the functions of ConnectX-7 by which the fabric manager of HGX B200 and B300
// reaches their NVSwitches, which are not on the bus. Their vital product data says what they
// are for; nil where an adapter's may not be read.
//
// Source: NVIDIA, Fabric Manager User Guide, r570, HGX B200: SMDL=SW_MNG; Linux 6.8,
// drivers/pci/vpd.c: the file is root's.
func switchDoors(o machine.Options) []string {
	const most = 4 << 10 // more than ConnectX has of it
	doors := []string{}
	files, _ := filepath.Glob(o.At("/sys/class/infiniband/*/device/vpd")) // the pattern is sound
	for _, file := range files {
		vpd, err := os.Open(file)
		if err != nil {
			return nil
		}
		data, err := io.ReadAll(io.LimitReader(vpd, most))
		vpd.Close()
		if err != nil && len(data) == 0 {
			return nil
		}
		if bytes.Contains(data, []byte("SMDL=SW_MNG")) {
			doors = append(doors, filepath.Base(filepath.Dir(filepath.Dir(file))))
		}
	}
	return doors
}
