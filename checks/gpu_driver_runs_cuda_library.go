package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// firstLibcuda is the libcuda.so.1 that a rank gets, nil where none was seen.
func firstLibcuda(node *facts.Node) *facts.DriverLibrary {
	if node.GPU == nil || len(node.GPU.Libcuda) == 0 {
		return nil
	}
	return &node.GPU.Libcuda[0]
}

// bridged is whether ranks get a libcuda of another version than the kernel module.
// The number in the file's name is the driver's only if it looks like one: WSL and
// Jetson have a libcuda.so.1.1.
func bridged(node *facts.Node) bool {
	first := firstLibcuda(node)
	return first != nil && node.GPU.Module != "" && first.Version != "" && !launch.Before(first.Version, "100") && first.Version != node.GPU.Module
}

// judgeLibcuda is of a libcuda that cannot work with the kernel module: CUDA's
// errors 34, 803 and 804.
//
// Source: NVIDIA, CUDA Compatibility, r590, forward compatibility: a newer libcuda
// works on data centre GPUs and some of the RTX line alone.
func judgeLibcuda(node *facts.Node) []Finding {
	first := firstLibcuda(node)
	if first == nil {
		return nil
	}
	f := Finding{Nodes: []string{node.Name}, Got: fmt.Sprintf("%s (%s)", first.Path, first.From), Remedy: libcudaAway(first)}
	switch {
	case strings.Contains(first.Path, "/stubs/"):
		f.Summary, f.Want = "ranks load the toolkit's stub of libcuda, which is for linking alone", "the driver's libcuda.so.1"
		f.WouldSee = "CUDA error 34: CUDA driver is a stub library"
		return []Finding{f}
	case !bridged(node):
		return nil
	}
	f.Got = fmt.Sprintf("libcuda %s from %s (%s), kernel module %s", first.Version, first.Path, first.From, node.GPU.Module)
	f.Want = "libcuda " + node.GPU.Module
	switch {
	case launch.Before(first.Version, node.GPU.Module):
		f.Summary = "ranks load a libcuda that is older than the kernel module"
		f.WouldSee = unlikeDriver
	case len(consumer(node)) > 0:
		f.Summary = "ranks load a libcuda that is newer than the kernel module, which these GPUs do not allow"
		f.Got += ", " + consumer(node)[0]
		f.WouldSee = "Unexpected error from cudaGetDeviceCount() … Error 804: forward compatibility was attempted on non supported HW"
	case first.Compat:
		return nil
	default:
		f.Verdict = Warn
		f.Summary = "ranks load a libcuda that is newer than the kernel module and of no cuda-compat package"
		f.WouldSee = "nothing, where forward compatibility happens to cover it; else " + unlikeDriver
	}
	return []Finding{f}
}

// libcudaAway takes a library out of the loader's way.
func libcudaAway(library *facts.DriverLibrary) []fix.Command {
	if library.From == "LD_LIBRARY_PATH" {
		return []fix.Command{searchSession("LD_LIBRARY_PATH"), fix.On("ldconfig -p | grep libcuda.so.1   # where the driver's own is")}
	}
	return []fix.Command{fix.On("grep -rn . /etc/ld.so.conf.d; ldconfig -p | grep libcuda.so.1   # take its directory out there, then run ldconfig")}
}

// consumer are the models that forward compatibility certainly leaves out.
func consumer(node *facts.Node) (models []string) {
	for i := range node.NVML.Cards {
		if card := &node.NVML.Cards[i]; isConsumer(card) {
			models = append(models, card.Name)
		}
	}
	return slices.Compact(models)
}

func isConsumer(card *facts.Card) bool {
	name := strings.TrimPrefix(card.Name, "NVIDIA ")
	return strings.HasPrefix(name, "GeForce") || strings.HasPrefix(name, "TITAN")
}
