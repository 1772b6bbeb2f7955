// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"preflight/testhosts/gpus"
)

// driverState is the directory in which a node keeps the description of its driver and the upper
// directories of its overlays.
const driverState = "/run/driver"

// SetDriver makes the node show the machine's GPUs and their driver: device nodes that open but do
// nothing, /proc/driver/nvidia, /sys, the libraries and the fabric manager. NVML answers, but CUDA
// does not. SetDriver replaces the driver of an earlier call, and Undo restores that driver. Before
// Undo, undo all later changes to /dev and /usr/bin.
func (n *Node) SetDriver(scenario gpus.Machine) (Undo, error) {
	before, err := n.driver()
	if err != nil {
		return nil, fmt.Errorf("%s: set driver: %w", n.Name, err)
	}
	return func() error { return n.changeDriver(&scenario, before) }, n.changeDriver(before, &scenario)
}

// SetGPUs calls [Node.SetDriver] for a machine with count healthy H100s, at most 8.
func (n *Node) SetGPUs(count int) (Undo, error) {
	if count < 1 || count > 8 {
		return nil, fmt.Errorf("%s: number of GPUs %d: must be 1 to 8", n.Name, count)
	}
	return n.SetDriver(gpus.H100s(count))
}

// driver returns the machine that was set last, or nil.
func (n *Node) driver() (*gpus.Machine, error) {
	var text []byte
	err := n.inside(func() (err error) {
		text, err = os.ReadFile(driverState + "/scenario.json")
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	scenario := &gpus.Machine{}
	return scenario, json.Unmarshal(text, scenario)
}

// changeDriver removes a driver (if from is not nil) and installs another one (if to is not nil).
func (n *Node) changeDriver(from, to *gpus.Machine) (err error) {
	if from != nil {
		err = n.removeDriver(*from)
	}
	if err == nil && to != nil {
		err = n.installDriver(*to)
	}
	if err != nil {
		return fmt.Errorf("%s: set driver: %w", n.Name, err)
	}
	return nil
}

func (n *Node) installDriver(scenario gpus.Machine) error {
	libraries, err := scenario.Libraries()
	if err != nil {
		return err
	}
	text, err := json.Marshal(scenario)
	if err != nil {
		return err
	}
	if err := n.inside(func() error { return layDriver(scenario, libraries, text) }); err != nil {
		return err
	}
	if scenario.FabricManager == "" || !scenario.FabricManagerRuns {
		return nil
	}
	if _, err := n.Run(context.Background(), "nv-fabricmanager"); err != nil {
		return errors.Join(err, n.removeDriver(gpus.Machine{}))
	}
	return nil
}

// layDriver sets up the driver's files. It must run in the node's namespaces. If layDriver fails,
// it removes what it has set up.
func layDriver(g gpus.Machine, libraries gpus.Tree, text []byte) (err error) {
	if err := os.Mkdir(driverState, 0o700); err != nil {
		return err
	}
	var laid []string
	defer func() {
		if err != nil {
			err = errors.Join(err, uncover(laid))
		}
	}()
	for i, layer := range driverLayers(g, libraries) {
		scratch := filepath.Join(driverState, strconv.Itoa(i))
		if err := errors.Join(os.Mkdir(scratch, 0o700), lay(scratch, layer.dir, layer.change)); err != nil {
			return fmt.Errorf("change %s: %w", layer.dir, err)
		}
		laid = append(laid, layer.dir)
	}
	// An overlay is not possible here, because overlays accept no directory of procfs as their
	// lower directory.
	if err := unix.Mount("driver", procDriver, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=555"); err != nil {
		return fmt.Errorf("change %s: %w", procDriver, err)
	}
	laid = append(laid, procDriver)
	return errors.Join(
		g.ProcFiles().Write(procDriver),
		os.WriteFile(scenarioPath, g.ScenarioFile(), 0o644),
		os.WriteFile(driverState+"/scenario.json", text, 0o600))
}

const (
	procDriver   = "/proc/driver"
	scenarioPath = "/etc/" + gpus.ScenarioName
)

func (n *Node) removeDriver(scenario gpus.Machine) error {
	if scenario.FabricManager != "" && scenario.FabricManagerRuns {
		// The fabric manager may have ended already, because Kill ends all processes of a node.
		const stop = `read -r pid <` + gpus.FabricManagerPID + ` && while kill -KILL "-$pid" 2>/dev/null; do sleep 0.01; done`
		if _, err := n.shell(stop); err != nil {
			return err
		}
	}
	return n.inside(func() error {
		var laid []string
		for _, layer := range driverLayers(scenario, nil) {
			laid = append(laid, layer.dir)
		}
		return uncover(append(laid, procDriver))
	})
}

// uncover removes the overlays from the directories, the last overlay first. Then it removes the
// description of the driver.
func uncover(laid []string) error {
	var failed error
	for _, dir := range slices.Backward(laid) {
		failed = errors.Join(failed, unix.Unmount(dir, unix.MNT_DETACH))
	}
	for _, left := range []string{scenarioPath, filepath.Dir(gpus.FabricManagerPID), driverState} {
		failed = errors.Join(failed, os.RemoveAll(left))
	}
	return failed
}

type driverLayer struct {
	dir    string
	change func(upper string) error
}

// driverLayers returns the directories that have more content on a machine with GPUs. The files of
// this machine's real driver are hidden.
func driverLayers(g gpus.Machine, libraries gpus.Tree) []driverLayer {
	add := func(dir string, files gpus.Tree) driverLayer {
		return driverLayer{dir, func(upper string) error { return errors.Join(files.Write(upper), hideNVIDIA(dir, upper)) }}
	}
	return []driverLayer{
		{"/dev", func(upper string) error { return errors.Join(makeDevices(g, upper), hideNVIDIA("/dev", upper)) }},
		add("/sys/module", g.SysModule()),
		add("/sys/devices", g.PCIDevices()),
		add("/sys/bus/pci/devices", g.PCILinks()),
		add(libraryDirectory(), libraries),
		add("/usr/bin", g.Programs()),
	}
}

// hideNVIDIA hides the files of a real driver or card in a directory, except files whose names are
// also in the upper directory.
func hideNVIDIA(dir, upper string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		vendor, _ := os.ReadFile(filepath.Join(dir, name, "vendor")) // only PCI devices have a vendor file
		mine := string(vendor) == "0x10de\n" || strings.HasPrefix(name, "nvidia") || strings.HasPrefix(name, "nv-fabricmanager") ||
			strings.HasPrefix(name, "libnvidia-ml.so") || strings.HasPrefix(name, "libcuda.so")
		if !mine {
			continue
		}
		if err := whiteout(upper, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// makeDevices creates device nodes that have the driver's names and the device number of /dev/null.
// Device nodes with the driver's own numbers could not be opened, because the driver is not loaded.
func makeDevices(g gpus.Machine, upper string) error {
	for _, name := range g.DeviceNames() {
		path := filepath.Join(upper, name)
		if err := errors.Join(unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), os.Chmod(path, 0o666)); err != nil {
			return err
		}
	}
	return nil
}

// libraryDirectory returns the directory in which the dynamic linker searches by default. It is
// Debian's or Red Hat's directory, depending on where the C library is.
func libraryDirectory() string {
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"} {
		if _, err := os.Stat(dir + "/libc.so.6"); err == nil {
			return dir
		}
	}
	return "/usr/lib64"
}
