package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// emptyRun ends the walk through a table of GIDs or pkeys. Tables have up to
// 256 slots and are filled from the start, so that many empty ones in a row
// are the end; a hole that a removed address left is shorter.
const emptyRun = 32

// peermemMarks are what NCCL takes for proof that the adapter can reach GPU
// memory (NCCL 2.27, transport/net_ib.cc, ncclIbGdrSupport).
var peermemMarks = []string{
	"/sys/kernel/mm/memory_peers/nv_mem/version",
	"/sys/kernel/mm/memory_peers/nv_mem_nc/version",
	"/sys/module/nvidia_peermem/version",
}

func collectIB(_ context.Context, o options) (*facts.IB, error) {
	seen := &facts.IB{Devices: []facts.HCA{}, Verbs: []string{}}
	devices, err := os.ReadDir(o.at("/sys/class/infiniband"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil && !exists(o.at("/sys/class")) {
		return nil, errors.New("/sys is not mounted")
	}
	nodes := verbsOf(o)
	for _, device := range devices {
		adapter := hca(o.at("/sys/class/infiniband/" + device.Name()))
		adapter.Verbs = nodes[adapter.Name]
		seen.Devices = append(seen.Devices, adapter)
	}
	seen.Verbs, seen.Refused = verbs(o)
	seen.Libraries = rdmaLibraries(o, os.Getenv("LD_LIBRARY_PATH"))
	seen.Peermem = slices.ContainsFunc(peermemMarks, func(mark string) bool { return exists(o.at(mark)) })
	return seen, nil
}

// hca reads one directory of /sys/class/infiniband. What a driver does not
// offer is empty.
func hca(dir string) facts.HCA {
	device := facts.HCA{
		Name:     filepath.Base(dir),
		Type:     line(dir + "/hca_type"),
		Firmware: line(dir + "/fw_ver"),
		Board:    line(dir + "/board_id"),
		GUID:     line(dir + "/node_guid"),
		NUMANode: -1,
		Kind:     parseState(line(dir + "/node_type")),
		Path:     pciPath(dir + "/device"),
	}
	if driver, err := os.Readlink(dir + "/device/driver"); err == nil {
		device.Driver = filepath.Base(driver)
	}
	device.PCIe, device.MaxPCIe = pcieLinks(dir + "/device")
	if node, known := number(dir + "/device/numa_node"); known {
		device.NUMANode = int(node)
	}
	ports, _ := filepath.Glob(dir + "/ports/[0-9]*") // fails on a bad pattern only
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
		State:     parseState(line(dir + "/state")),
		Physical:  parseState(line(dir + "/phys_state")),
		LinkLayer: line(dir + "/link_layer"),
		LID:       parseLID(line(dir + "/lid")),
		SMLID:     parseLID(line(dir + "/sm_lid")),
		NetDev:    netDevice(device, dir, number, held),
		GIDs:      held,
	}
	port.PKeys, port.PKeySlots = pkeys(dir)
	port.Rate, port.Width = parseRate(line(dir + "/rate"))
	return port
}

// gids are the slots that hold one. A slot that is not there ends the table. The
// kernel refuses to tell the type of an empty slot, in containers sometimes of any.
func gids(port string) []facts.GID {
	var held []facts.GID
	for index, empty := 0, 0; empty < emptyRun; index++ {
		gid := line(fmt.Sprintf("%s/gids/%d", port, index))
		if gid == "" {
			break
		}
		if strings.Trim(gid, "0:") == "" {
			empty++
			continue
		}
		empty = 0
		held = append(held, facts.GID{
			Index: index,
			GID:   gid,
			Type:  line(fmt.Sprintf("%s/gid_attrs/types/%d", port, index)),
		})
	}
	return held
}

// pkeys are the slots that hold one, in the order of the table, and their places
// where they are not those of the first slots.
func pkeys(port string) (held []string, slots []int) {
	hasHole := false
	for index, empty := 0, 0; empty < emptyRun; index++ {
		key := line(fmt.Sprintf("%s/pkeys/%d", port, index))
		if key == "" {
			break
		}
		if key == "0x0000" {
			empty++
			continue
		}
		hasHole = hasHole || empty > 0
		empty = 0
		held, slots = append(held, key), append(slots, index)
	}
	if !hasHole {
		slots = nil
	}
	return held, slots
}

// netDevice is the interface that belongs to a port: of a RoCE port the one its
// GIDs are made from, of an InfiniBand port the IPoIB one with its number.
func netDevice(device, port string, number int, held []facts.GID) string {
	for _, gid := range held {
		if name := line(fmt.Sprintf("%s/gid_attrs/ndevs/%d", port, gid.Index)); name != "" {
			return name
		}
	}
	interfaces, _ := filepath.Glob(device + "/device/net/*") // fails on a bad pattern only
	for _, path := range interfaces {
		if line(path+"/dev_port") == strconv.Itoa(number-1) { // counts from 0, ports from 1
			return filepath.Base(path)
		}
	}
	return ""
}

// parseState reads the word of "4: ACTIVE" or "5: LinkUp".
func parseState(text string) string {
	_, word, found := strings.Cut(text, ":")
	if !found {
		return text
	}
	return strings.TrimSpace(word)
}

// parseLID reads "0x1c", 0 when there is none.
func parseLID(text string) int {
	lid, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		return 0
	}
	return int(lid)
}

// parseRate reads "400 Gb/sec (4X NDR)" or "2.5 Gb/sec (1X SDR)" into bits per
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
