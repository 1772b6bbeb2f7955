package checks

import (
	"cmp"
	"fmt"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// managerFindings judges the service of a machine that has NVSwitches of its own.
//
// Source: NVIDIA, Fabric Manager User Guide, r550: the service and the driver must be
// of one version, else "fabric manager NVIDIA GPU driver interface version … don't
// match with driver version …".
func managerFindings(node *facts.Node) []Finding {
	manager := node.GPU.FabricManager
	if node.GPU.NVSwitches == 0 || containerOf(node) != "" || manager == nil {
		return nil
	}
	driver := cmp.Or(node.NVML.Driver, node.GPU.Module)
	running := manager.Running || manager.State == "active"
	f := Finding{Nodes: []string{node.Name}, Want: "nvidia-fabricmanager " + driver + " running"}
	switch {
	case !manager.Installed && !running:
		if fabricIsUp(node) {
			return nil // somebody else has done it
		}
		f.Summary = "there are NVSwitches and no fabric manager is installed"
		f.Got = fmt.Sprintf("%d NVSwitches, driver %s", node.GPU.NVSwitches, driver)
		f.Remedy = append(installManager(driver), startManager)
	case manager.Version != "" && driver != "" && manager.Version != driver:
		f.Summary = "fabric manager and driver are of two versions"
		f.Got = fmt.Sprintf("fabric manager %s, driver %s", manager.Version, driver)
		f.Remedy = append(installManager(driver), fix.On("sudo systemctl restart nvidia-fabricmanager   # once nothing uses the GPUs"))
		if running && fabricIsUp(node) {
			f.Verdict, f.WouldSee = Warn, "nothing before the next boot, then Error 802: system not yet initialized"
		}
	case !running:
		f.Summary = "the fabric manager does not run"
		f.Got = cmp.Or(manager.State, "no process of it")
		f.Remedy = []fix.Command{startManager, fix.On("sudo journalctl -u nvidia-fabricmanager -n 20   # if it does not stay up")}
	default:
		return nil
	}
	return []Finding{f}
}

var startManager = fix.On("sudo systemctl enable --now nvidia-fabricmanager")

// installManager installs the manager that belongs to a driver ("550.54.15"). What
// follows the version is NVIDIA's ("-1") or the distribution's ("-0ubuntu0.24.04.1").
func installManager(driver string) []fix.Command {
	branch, _, _ := strings.Cut(driver, ".")
	if branch == "" {
		return []fix.Command{fix.On("sudo apt-get install -y nvidia-fabricmanager-BRANCH   # of exactly the driver's version")}
	}
	return []fix.Command{
		fix.On("sudo apt-get install -y 'nvidia-fabricmanager-%s=%s*'", fix.Name(branch), fix.Name(driver)),
		fix.On("sudo dnf install -y nvidia-fabric-manager-%s", fix.Name(driver)).Remark("on Red Hat"),
	}
}
