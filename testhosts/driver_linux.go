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

// driverState is where a node keeps what its driver is like and the upper
// halves of the layers that show it.
const driverState = "/run/driver"

// SetDriver shows the node the machine's GPUs with their driver: device nodes that
// open and do nothing, /proc/driver/nvidia, /sys, the libraries and the
// fabric manager. NVML answers; CUDA does not. It replaces the
// driver that was set before, and to undo it brings that one back; what was done to
// /dev or /usr/bin in between is to be undone first.
func (n *Node) SetDriver(scenario gpus.Machine) (Undo, error) {
	before, err := n.driver()
	if err != nil {
		return nil, fmt.Errorf("%s: set driver: %w", n.Name, err)
	}
	return func() error { return n.changeDriver(&scenario, before) }, n.changeDriver(before, &scenario)
}

// SetGPUs is [Node.SetDriver] of a machine with so many healthy H100, at most 8.
func (n *Node) SetGPUs(count int) (Undo, error) {
	if count < 1 || count > 8 {
		return nil, fmt.Errorf("%s: %d GPUs cannot be shown: 1 to 8", n.Name, count)
	}
	return n.SetDriver(gpus.H100s(count))
}

// driver is what was set last, nil for nothing.
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

// changeDriver takes a driver away, where there is one, and puts another there.
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

// layDriver runs in the node. What fails half way is taken down again.
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
	// No overlay here: it takes no directory of procfs below it.
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
		// It may be dead already, as everything is that runs on a node that was killed.
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

// uncover uncovers directories, the last one first, and forgets the driver.
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

// driverLayers are the directories of every machine that one with GPUs has more in. What
// a driver of the machine itself shows there is hidden.
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

// hideNVIDIA hides what a directory has of a real driver or card, but for names
// that the upper half has, too.
func hideNVIDIA(dir, upper string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		vendor, _ := os.ReadFile(filepath.Join(dir, name, "vendor")) // what is no PCI device has none
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

// makeDevices makes nodes of the driver's names that are /dev/null in truth: those
// of its own kind cannot be opened where it is not loaded.
func makeDevices(g gpus.Machine, upper string) error {
	for _, name := range g.DeviceNames() {
		path := filepath.Join(upper, name)
		if err := errors.Join(unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), os.Chmod(path, 0o666)); err != nil {
			return err
		}
	}
	return nil
}

// libraryDirectory is where the loader looks by default: of Debian's
// directories, or Red Hat's, the one that has the C library.
func libraryDirectory() string {
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"} {
		if _, err := os.Stat(dir + "/libc.so.6"); err == nil {
			return dir
		}
	}
	return "/usr/lib64"
}
