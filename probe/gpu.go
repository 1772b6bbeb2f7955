package probe

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// deviceName takes the number off the name of a device node, for an order by it.
var deviceName = regexp.MustCompile(`^(nvidia|accel|davinci)(\d+)$`)

// collectGPU looks for accelerators and, where one is NVIDIA's, at what of its
// driver the kernel and the file system show. Whether any of it works is for the
// driver to say, which is not asked here.
func collectGPU(ctx context.Context, o options) (*facts.GPU, error) {
	gpu := &facts.GPU{Devices: deviceNodes(o, "/dev", "nvidia")}
	// Where no driver is loaded, the directory is not there.
	if entries, err := os.ReadDir(o.at("/proc/driver/nvidia/gpus")); err == nil {
		gpu.Driver = []string{}
		for _, entry := range entries {
			gpu.Driver = append(gpu.Driver, entry.Name())
		}
	}
	gpu.Others = slices.Concat(kfdNodes(o), deviceNodes(o, "/dev/accel", "accel"), deviceNodes(o, "/dev", "davinci"))
	if exists(o.at("/dev/dxg")) { // WSL 2 shows all GPUs of Windows as one device
		gpu.Others = append(gpu.Others, "/dev/dxg")
	}
	gpu.OnBus, gpu.NVSwitches = nvidiaOnBus(o)
	if !showsNVIDIA(o) {
		return gpu, ctx.Err()
	}
	gpu.Modules = loadedModules(o)
	gpu.Module, gpu.OpenModule = driverModule(o)
	gpu.Modprobe = hasModprobe(o)
	gpu.Doors = doors(o, gpu.Devices, gpu.Modules)
	gpu.Libcuda = findLibcuda(o, os.Getenv("LD_LIBRARY_PATH"))
	gpu.IOMMU = iommu(o, gpu.OnBus)
	gpu.Redirecting = redirectingBridges(o, gpu.OnBus)
	gpu.Xids, gpu.XidsUnread = readXids(ctx, o)
	gpu.FabricManager = fabricManager(ctx, o, gpu.NVSwitches)
	return gpu, ctx.Err()
}

// showsNVIDIA is whether anything here is NVIDIA's, so that its driver is worth
// asking: a device node, the driver's directory, a GPU on the bus, or the one
// device in which WSL 2 shows all GPUs of Windows.
func showsNVIDIA(o options) bool {
	for _, sign := range []string{"/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg"} {
		if exists(o.at(sign)) {
			return true
		}
	}
	gpus, _ := nvidiaOnBus(o)
	return len(gpus) > 0 || len(deviceNodes(o, "/dev", "nvidia")) > 0
}

// deviceNodes are those of one kind by their numbers; never nil.
func deviceNodes(o options, dir, kind string) []string {
	entries, _ := os.ReadDir(o.at(dir)) // none, where the directory is not there
	numbers := []int{}
	for _, entry := range entries {
		match := deviceName.FindStringSubmatch(entry.Name())
		if match == nil || match[1] != kind {
			continue
		}
		if number, err := strconv.Atoi(match[2]); err == nil {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	nodes := []string{}
	for _, number := range numbers {
		nodes = append(nodes, filepath.Join(dir, kind+strconv.Itoa(number)))
	}
	return nodes
}

// kfdNodes are AMD's GPUs: /dev/kfd is one door to all of them, and the topology
// tells which of its nodes compute (Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c;
// a processor has no SIMD units).
func kfdNodes(o options) []string {
	if !exists(o.at("/dev/kfd")) {
		return nil
	}
	const topology = "/sys/class/kfd/kfd/topology/nodes"
	entries, _ := os.ReadDir(o.at(topology))
	var nodes []string
	for _, entry := range entries {
		properties, err := os.ReadFile(o.at(filepath.Join(topology, entry.Name(), "properties")))
		if err != nil {
			continue // a GPU that this container was not given
		}
		for row := range strings.Lines(string(properties)) {
			name, value, _ := strings.Cut(strings.TrimSpace(row), " ")
			if name == "simd_count" && value != "0" {
				nodes = append(nodes, "/dev/kfd node "+entry.Name())
			}
		}
	}
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return nodes
}
