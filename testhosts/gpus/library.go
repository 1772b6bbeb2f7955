// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

//go:embed */*.c */*.h
var librarySource embed.FS

// standIn is a library that programs load instead of NVIDIA's library.
type standIn struct {
	name    string // file name and soname of the library
	exports string // prefix of the functions that the library exports
	sources []string
}

var (
	nvml = standIn{"libnvidia-ml.so.1", "nvml", []string{"nvml/*.c"}}
	cuda = standIn{"libcuda.so.1", "cu", []string{"cuda/*.c", "nvml/scenario.c"}}
	nccl = standIn{"libnccl.so.2", "nccl", []string{"nccl/*.c", "cuda/trouble.c", "nvml/scenario.c"}}
)

// ScenarioName is the file next to the library to which BuildNVML writes the scenario.
const ScenarioName = "nvml-stub.scenario"

// BuildNVML writes a stand-in for NVIDIA's management library and its scenario file into a
// directory, and returns the library's path. Programs that load it need [ScenarioVariable] in the
// environment, with the path of the scenario file. BuildNVML needs a C compiler and takes one
// second for each set of missing functions.
func BuildNVML(dir string, scenario Machine) (library string, err error) {
	return filepath.Join(dir, nvml.name), build(dir, scenario, nvml)
}

// BuildCUDA does the same as [BuildNVML] for stand-ins of libcuda and libnccl. The libnccl uses the
// libcuda. BuildCUDA returns the path of libnccl.
func BuildCUDA(dir string, scenario Machine) (library string, err error) {
	return filepath.Join(dir, nccl.name), build(dir, scenario, cuda, nccl)
}

func build(dir string, scenario Machine, libraries ...standIn) error {
	for _, library := range libraries {
		binary, err := library.compiled(scenario.Without)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, library.name), binary, 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, ScenarioName), scenario.ScenarioFile(), 0o644)
}

// compiled caches the libraries that this process has built, by name and missing functions.
var compiled struct {
	sync.Mutex
	libraries map[string][]byte
}

func (l standIn) compiled(without []string) ([]byte, error) {
	compiled.Lock()
	defer compiled.Unlock()
	what := l.name + " without " + strings.Join(slices.Sorted(slices.Values(without)), " ")
	if binary, ok := compiled.libraries[what]; ok {
		return binary, nil
	}
	binary, err := l.compile(without)
	if err != nil {
		return nil, fmt.Errorf("build the stand-in for %s: %w", l.name, err)
	}
	if compiled.libraries == nil {
		compiled.libraries = map[string][]byte{}
	}
	compiled.libraries[what] = binary
	return binary, nil
}

// ErrNoCompiler means that the machine has no C compiler to build the library.
var ErrNoCompiler = errors.New("no C compiler (cc): install gcc and libc6-dev, as testhosts/apt.sh does")

func (l standIn) compile(without []string) (binary []byte, err error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return nil, ErrNoCompiler
	}
	dir, err := os.MkdirTemp("", "standin")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.CopyFS(dir, librarySource); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "exports"), l.exportsWithout(without), 0o600); err != nil {
		return nil, err
	}
	args := []string{"-O2", "-shared", "-fPIC", "-pthread", "-Wl,-soname," + l.name, "-Wl,--version-script,exports", "-o", l.name}
	for _, pattern := range l.sources {
		sources, err := fs.Glob(librarySource, pattern)
		if err != nil {
			return nil, err
		}
		args = append(args, sources...)
	}
	cmd := exec.Command(cc, append(args, "-ldl", "-lrt")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(out))
	}
	return os.ReadFile(filepath.Join(dir, l.name))
}

// exportsWithout returns a linker's version script that hides the functions that an old library
// lacks. A full name takes precedence over a pattern.
func (l standIn) exportsWithout(functions []string) []byte {
	local := append(slices.Clone(functions), "*")
	return []byte("{ global: " + l.exports + "*; local: " + strings.Join(local, "; ") + "; };\n")
}

// Libraries returns the user-space libraries of the driver: NVML and CUDA, and NCCL if the machine
// has it.
func (g Machine) Libraries() (Tree, error) {
	if g.NoLibrary {
		return nil, nil
	}
	driver, err := cuda.compiled(g.Without)
	if err != nil {
		return nil, err
	}
	libcuda := "libcuda.so." + g.Driver
	files := Tree{cuda.name: linkTo + libcuda, libcuda: string(driver)}
	if g.NCCL {
		binary, err := nccl.compiled(g.Without)
		if err != nil {
			return nil, err
		}
		files[nccl.name] = string(binary)
	}
	if g.NoNVML {
		return files, nil
	}
	management, err := nvml.compiled(g.Without)
	files[nvml.name] = linkTo + "libnvidia-ml.so." + g.Driver
	files["libnvidia-ml.so."+g.Driver] = string(management)
	return files, err
}

// ScenarioVariable is the variable with the path of the file that the stub library reads instead of
// /etc/nvml-stub.scenario.
const ScenarioVariable = "NVML_STUB_SCENARIO"

// ScenarioFile returns the file that the stub library reads, with one "key value" per line. The
// lines after a "gpu" line describe that card, and the lines after a "mig" line describe that MIG
// instance of the card. A missing key means that the item is not supported.
func (g Machine) ScenarioFile() []byte {
	g = g.driven()
	var file scenario
	file.add("init", "%d", g.initCode())
	file.add("driver", "%s", g.Driver)
	file.add("cuda", "%s", g.CUDA)
	file.addCall("hang", g.Hang)
	file.addCall("crash", g.Crash)
	for i := range g.Cards {
		g.addCard(&file, i)
	}
	return file.Bytes()
}

type scenario struct{ bytes.Buffer }

func (s *scenario) add(key, format string, values ...any) {
	fmt.Fprintf(s, key+" "+format+"\n", values...)
}

func (s *scenario) addCall(key string, call Call) {
	if call.Function != "" {
		s.add(key, "%s %d", call.Function, call.GPU)
	}
}

func (g Machine) addCard(s *scenario, i int) {
	card := g.Cards[i]
	s.add("gpu", "%d", i)
	if card.Lost {
		s.add("fail."+handleFunction, "%d", nvmlLost)
	}
	for _, function := range slices.Sorted(maps.Keys(card.Fails)) {
		s.add("fail."+function, "%d", card.Fails[function])
	}
	for _, function := range slices.Sorted(maps.Keys(card.Trouble)) {
		s.add("trouble."+function, "%s", card.Trouble[function])
	}
	s.add("name", "%s", card.Name)
	s.add("uuid", "%s", card.UUID)
	if card.Serial != "" {
		s.add("serial", "%s", card.Serial)
	}
	s.add("vbios", "%s", card.VBIOS)
	s.add("capability", "%s", strings.ReplaceAll(card.Capability, ".", " "))
	s.add("pci", "%s %04x10de", card.Address(), card.Device)
	s.add("minor", "%d", i)
	s.add("numa", "%d", card.NUMA)
	s.add("cpus", "%s", card.CPUs)
	s.add("memory", "%d %d %d", card.Memory, card.MemoryReserved, card.MemoryUsed)
	s.add("link", "%d %d %d %d %d", card.Link.Generation, card.Link.MaxGeneration, card.Link.Width, card.Link.MaxWidth, card.Link.Replays)
	s.add("clock", "%d %d %d %d %d", card.Clock.SM, card.Clock.MaxSM, card.Clock.Memory, card.Clock.MaxMemory, card.Clock.AppSM)
	s.add("power", "%.0f %.0f %.0f %.0f %.0f", 1000*card.Power.Draw, 1000*card.Power.Limit, 1000*card.Power.Default, 1000*card.Power.Min, 1000*card.Power.Max)
	s.add("temperature", "%d %d", card.Celsius, card.SlowAt)
	s.add("throttle", "%d", card.throttleMask())
	s.add("utilization", "%d 0", card.Busy)
	s.add("persistence", "%d", bit(card.Persistence))
	s.add("compute-mode", "%d", map[string]int{"default": 0, "prohibited": 2, "exclusive-process": 3}[card.ComputeMode])
	if recovery := slices.Index(recoveries, card.Recovery); recovery >= 0 {
		s.add("recovery", "%d", recovery)
	}
	card.addMemoryHealth(s)
	card.addNeighbours(s)
	for j, other := range g.Cards {
		if j != i {
			s.add(fmt.Sprintf("topology.%d", j), "%d", topology(card, other))
			s.add(fmt.Sprintf("p2p.%d", j), "%d", card.Apart[j])
		}
	}
	card.addUsers(s)
}

func (card Card) addMemoryHealth(s *scenario) {
	if ecc := card.ECC; ecc != nil {
		s.add("ecc", "%d %d %d %d %d %d", bit(ecc.Enabled), bit(ecc.Pending), ecc.Corrected, ecc.Uncorrected, ecc.AggregateCorrected, ecc.AggregateUncorrected)
	}
	if retired := card.Retired; retired != nil {
		s.add("retired", "%d %d %d", retired.SingleBit, retired.DoubleBit, bit(retired.Pending))
	}
	if rows := card.Remapped; rows != nil {
		s.add("remapped", "%d %d %d %d", rows.Corrected, rows.Uncorrected, bit(rows.Pending), bit(rows.Failed))
	}
}

func (card Card) addNeighbours(s *scenario) {
	if len(card.NVLinks) > 0 {
		s.add("nvlinks", "%d", len(card.NVLinks))
	}
	for i, link := range card.NVLinks {
		kind := map[string]int{"gpu": 0, "npu": 1, "switch": 2}[link.Kind]
		s.add(fmt.Sprintf("nvlink.%d", i), "%d %d %d %d %d %d %s", bit(!link.Down), link.Speed, kind, link.Replays, link.Recover, link.CRC, link.Remote)
	}
	if fabric := card.Fabric; fabric != nil {
		s.add("fabric", "%d %d %d %d %s", fabric.State, fabric.Status, fabric.Clique, fabric.Health, strings.ReplaceAll(fabric.Cluster, "-", ""))
	}
}

// addUsers adds the card's processes and then its MIG instances. The MIG instances come last,
// because each starts a new part of the file.
func (card Card) addUsers(s *scenario) {
	counts := map[string]int{}
	for _, process := range card.Processes {
		s.add(fmt.Sprintf("%s.%d", process.Kind, counts[process.Kind]), "%d %d", process.PID, process.Memory)
		counts[process.Kind]++
	}
	if card.MIG != "" {
		s.add("mig-mode", "%d %d", bit(card.MIG == "enabled"), bit(card.MIGPending == "enabled"))
	}
	for i, name := range card.MIGDevices {
		s.add("mig", "%d", i)
		s.add("name", "%s MIG %s", card.Name, name)
		s.add("uuid", "%s", card.migUUID(i))
		share := card.Memory / 8
		s.add("memory", "%d 0 %d", share, 12*miB)
	}
}

func (card Card) migUUID(i int) string {
	return fmt.Sprintf("MIG-%s%02x", strings.TrimPrefix(card.UUID, "GPU-")[:len(card.UUID)-6], i)
}

// throttleReasons lists the names of NVML's bits, in the order of the bits (nvml.h,
// nvmlClocksEventReason…).
var throttleReasons = []string{
	"gpu-idle", "applications-clocks", "sw-power-cap", "hw-slowdown", "sync-boost", "sw-thermal", "hw-thermal", "hw-power-brake", "display-clocks",
}

func (card Card) throttleMask() (mask int) {
	for i, reason := range throttleReasons {
		if slices.Contains(card.Throttle, reason) {
			mask |= 1 << i
		}
	}
	return mask
}

// recoveries lists the recovery actions in NVML's order (nvml.h, nvmlDeviceGpuRecoveryAction_t).
var recoveries = []string{"none", "reset", "reboot", "drain", "drain-and-reset", "recover-imex", "bus-reset", "system-reboot"}

func bit(set bool) int {
	if set {
		return 1
	}
	return 0
}
