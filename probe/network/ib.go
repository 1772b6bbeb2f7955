// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// peermemMarks lists the files by which NCCL decides that the adapter can reach GPU memory (NCCL
// 2.27, transport/net_ib.cc, ncclIbGdrSupport).
var peermemMarks = []string{
	"/sys/kernel/mm/memory_peers/nv_mem/version",
	"/sys/kernel/mm/memory_peers/nv_mem_nc/version",
	"/sys/module/nvidia_peermem/version",
}

// CollectIB reads the RDMA adapters from sysfs, and searches for the files that NCCL needs to use
// them. If /sys is mounted and shows no adapter, that is a fact.
func CollectIB(_ context.Context, o machine.Options) (*facts.IB, error) {
	seen := &facts.IB{Devices: []facts.HCA{}, Verbs: []string{}}
	devices, err := os.ReadDir(o.At("/sys/class/infiniband"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil && !machine.Exists(o.At("/sys/class")) {
		return nil, errors.New("/sys is not mounted")
	}
	nodes := verbsOf(o)
	for _, device := range devices {
		adapter := hca(o.At("/sys/class/infiniband/" + device.Name()))
		adapter.Verbs = nodes[adapter.Name]
		for i := range adapter.Ports {
			if port := &adapter.Ports[i]; o.Root == "" && port.LinkLayer == "Ethernet" && port.NetDev != "" { // netlink reads only the real machine, not a recorded one
				port.QoS = qosOf(port.NetDev)
			}
		}
		seen.Devices = append(seen.Devices, adapter)
	}
	seen.Verbs, seen.Refused = verbs(o)
	seen.Libraries = rdmaLibraries(o, o.Getenv("LD_LIBRARY_PATH"))
	seen.Peermem = slices.ContainsFunc(peermemMarks, func(mark string) bool { return machine.Exists(o.At(mark)) })
	return seen, nil
}

// hca reads one directory of /sys/class/infiniband. A field is empty if the driver does not report
// it.
func hca(dir string) facts.HCA {
	device := facts.HCA{
		Name:     filepath.Base(dir),
		Type:     machine.Line(dir + "/hca_type"),
		Firmware: machine.Line(dir + "/fw_ver"),
		Board:    machine.Line(dir + "/board_id"),
		GUID:     machine.Line(dir + "/node_guid"),
		Driver:   machine.Driver(dir + "/device"),
		NUMANode: machine.NUMANode(dir + "/device"),
		Kind:     parseState(machine.Line(dir + "/node_type")),
		Path:     machine.PCIPath(dir + "/device"),
	}
	now, most := machine.PCIeLinks(dir + "/device")
	device.PCIe, device.MaxPCIe = now.String(), most.String()
	ports, _ := filepath.Glob(dir + "/ports/[0-9]*") // fails only on a bad pattern
	for _, port := range ports {
		if n, err := strconv.Atoi(filepath.Base(port)); err == nil {
			device.Ports = append(device.Ports, ibPort(dir, port, n))
		}
	}
	slices.SortFunc(device.Ports, func(a, b facts.IBPort) int { return cmp.Compare(a.Port, b.Port) })
	return device
}

func ibPort(device, dir string, number int) facts.IBPort {
	held := gids(dir)
	port := facts.IBPort{
		Port:      number,
		State:     parseState(machine.Line(dir + "/state")),
		Physical:  parseState(machine.Line(dir + "/phys_state")),
		LinkLayer: machine.Line(dir + "/link_layer"),
		LID:       parseLID(machine.Line(dir + "/lid")),
		SMLID:     parseLID(machine.Line(dir + "/sm_lid")),
		NetDev:    netDevice(device, dir, number, held),
		GIDs:      held,
	}
	port.PKeys, port.PKeySlots = pkeys(dir)
	port.Rate, port.Width = parseRate(machine.Line(dir + "/rate"))
	return port
}

// slots yields the content of a table of GIDs or pkeys, by slot. A table has up to 256 slots and is
// filled from the start. So a missing slot, or many empty slots in a row, mean the end of the
// table. The hole that a removed address leaves is shorter.
func slots(table string, empty func(value string) bool) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for index, run := 0, 0; run < 32; index++ {
			value := machine.Line(fmt.Sprintf("%s/%d", table, index))
			if run++; value == "" {
				return
			}
			if !empty(value) {
				run = 0
				if !yield(index, value) {
					return
				}
			}
		}
	}
}

// gids returns the GIDs of a port. The kernel refuses to give the type of an empty slot. In
// containers it sometimes refuses to give the type of any slot.
func gids(port string) []facts.GID {
	var held []facts.GID
	for index, gid := range slots(port+"/gids", func(gid string) bool { return strings.Trim(gid, "0:") == "" }) {
		held = append(held, facts.GID{Index: index, GID: gid, Type: machine.Line(fmt.Sprintf("%s/gid_attrs/types/%d", port, index))})
	}
	return held
}

// pkeys returns the pkeys of a port, in the order of the table. It also returns their slots, unless
// these are the first slots of the table.
func pkeys(port string) (held []string, places []int) {
	for index, key := range slots(port+"/pkeys", func(key string) bool { return key == "0x0000" }) {
		held, places = append(held, key), append(places, index)
	}
	if len(places) > 0 && places[len(places)-1] == len(places)-1 {
		places = nil
	}
	return held, places
}

// netDevice returns the interface that belongs to a port. For RoCE it is the interface from which
// the port's GIDs are made. For InfiniBand it is the IPoIB interface with the port's number.
func netDevice(device, port string, number int, held []facts.GID) string {
	for _, gid := range held {
		if name := machine.Line(fmt.Sprintf("%s/gid_attrs/ndevs/%d", port, gid.Index)); name != "" {
			return name
		}
	}
	interfaces, _ := filepath.Glob(device + "/device/net/*") // fails only on a bad pattern
	for _, path := range interfaces {
		if machine.Line(path+"/dev_port") == strconv.Itoa(number-1) { // dev_port counts from 0, while ports count from 1
			return filepath.Base(path)
		}
	}
	return ""
}

// parseState returns the word in texts such as "4: ACTIVE" or "5: LinkUp".
func parseState(text string) string {
	_, word, found := strings.Cut(text, ":")
	if !found {
		return text
	}
	return strings.TrimSpace(word)
}

// parseLID parses a LID such as "0x1c". It returns 0 if there is no LID.
func parseLID(text string) int {
	lid, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		return 0
	}
	return int(lid)
}

// parseRate parses a rate such as "400 Gb/sec (4X NDR)" or "2.5 Gb/sec (1X SDR)" into bits per
// second and lanes.
func parseRate(text string) (bitsPerSecond int64, width string) {
	number, rest, found := strings.Cut(text, " Gb/sec")
	gigabits, err := strconv.ParseFloat(number, 64)
	if !found || err != nil {
		return 0, ""
	}
	_, lanes, _ := strings.Cut(rest, "(")
	if fields := strings.Fields(strings.TrimSuffix(lanes, ")")); len(fields) > 0 {
		width = fields[0]
	}
	return int64(gigabits * 1e9), width
}

// verbs returns the device nodes through which programs use RDMA adapters, and the nodes that this
// session may not use. The cause is a container's device cgroup, which no file mode shows, or the
// file mode.
//
// Opening and closing a node starts nothing in the adapter. The kernel creates a file, and a
// context only on request (Linux 6.8, drivers/infiniband/core/uverbs_main.c, ib_uverbs_open).
func verbs(o machine.Options) (nodes []string, refused []facts.DeviceNode) {
	nodes = []string{}
	paths, _ := filepath.Glob(o.At("/dev/infiniband/uverbs*")) // fails only on a bad pattern
	for _, path := range paths {
		node := "/dev/infiniband/" + filepath.Base(path)
		nodes = append(nodes, node)
		file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil {
			refused = append(refused, facts.DeviceNode{Path: node, Problem: machine.Reason(err)})
			continue
		}
		file.Close()
	}
	return nodes, refused
}

// verbsOf maps adapters to their device nodes. A container may see all adapters of its machine, but
// have the device nodes of only a few.
func verbsOf(o machine.Options) map[string]string {
	nodes := map[string]string{}
	entries, _ := filepath.Glob(o.At("/sys/class/infiniband_verbs/uverbs*")) // fails only on a bad pattern
	for _, entry := range entries {
		if adapter := machine.Line(entry + "/ibdev"); adapter != "" {
			nodes[adapter] = "/dev/infiniband/" + filepath.Base(entry)
		}
	}
	return nodes
}

// rdmaNames lists the libraries for RDMA: verbs, and the user-space part of Mellanox's driver. NCCL
// loads the first library, which loads the second.
var rdmaNames = []string{"libibverbs.so.1", "libmlx5.so.1"}

// pluginName matches a library that NCCL loads as its network or tuner plugin. NCCL never requests
// a name with a version at the end.
var pluginName = lazyregexp.New(`^libnccl-(net|tuner)(-[^/]+)?\.so$`)

// rdmaLibraries returns the libraries that exist, each at the first path where the loader finds it.
// The result is never nil.
func rdmaLibraries(o machine.Options, libraryPath string) []facts.RDMALibrary {
	found := []facts.RDMALibrary{}
	for _, name := range append(slices.Clone(rdmaNames), pluginNames(o, libraryPath)...) {
		for _, c := range machine.LoaderOrder(o, libraryPath, name) {
			if machine.Exists(o.At(c.Path)) {
				found = append(found, facts.RDMALibrary{Name: name, Path: c.Path})
				break
			}
		}
	}
	return found
}

func isPlugin(name string) bool {
	return strings.HasPrefix(name, "libnccl-") && pluginName.MatchString(name)
}

// pluginNames returns NCCL's plugins in the directories that the loader searches, sorted.
func pluginNames(o machine.Options, libraryPath string) []string {
	var names []string
	var seen []os.FileInfo
	for _, c := range machine.LoaderOrder(o, libraryPath, "") { // with an empty name, the candidates are the directories
		dir, err := os.Open(o.At(c.Path))
		if err != nil {
			continue
		}
		info, err := dir.Stat()
		same := func(other os.FileInfo) bool { return os.SameFile(info, other) }
		if err == nil && !slices.ContainsFunc(seen, same) { // /lib is usually a link to /usr/lib, and each has thousands of entries
			seen = append(seen, info)
			entries, _ := dir.Readdirnames(-1) // a partial list is better than nothing
			names = append(names, slices.DeleteFunc(entries, func(name string) bool { return !isPlugin(name) })...)
		}
		dir.Close()
	}
	for _, entry := range machine.LoaderCacheEntries(o.At("/etc/ld.so.cache"), isPlugin) {
		names = append(names, entry.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
