package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"preflight/facts"
)

func collectHost(_ context.Context, o options) (*facts.Host, error) {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return nil, fmt.Errorf("uname: %w", err)
	}
	boot := line(o.at("/proc/sys/kernel/random/boot_id"))
	if boot == "" {
		return nil, errors.New("/proc is not mounted: no boot id, and little else can be told")
	}
	netns, _ := os.Readlink(o.at("/proc/self/ns/net")) // "" in a kernel without namespaces
	uptime, _, _ := strings.Cut(line(o.at("/proc/uptime")), " ")
	up, err := strconv.ParseFloat(uptime, 64)
	if err != nil {
		return nil, fmt.Errorf("/proc/uptime says %q", uptime)
	}
	who := session(o)
	return &facts.Host{
		Hostname:     unix.ByteSliceToString(uname.Nodename[:]),
		BootID:       boot,
		MachineID:    cmp.Or(line(o.at("/etc/machine-id")), line(o.at("/var/lib/dbus/machine-id"))),
		NetNamespace: netns,
		OS:           distribution(o),
		Kernel:       unix.ByteSliceToString(uname.Release[:]),
		Arch:         unix.ByteSliceToString(uname.Machine[:]),
		Libc:         libc(o),
		CPU:          processors(o),
		NUMA:         numaNodes(o),
		Container:    container(o),
		User:         who.name,
		Home:         who.home,
		Shell:        who.shell,
		Uptime:       up,
		Load:         load(o),
	}, nil
}

// load is the load average of one minute, nil when the kernel does not say.
func load(o options) *float64 {
	minute, _, _ := strings.Cut(line(o.at("/proc/loadavg")), " ")
	n, err := strconv.ParseFloat(minute, 64)
	if err != nil {
		return nil
	}
	return &n
}

// distribution is the name os-release(5) gives for people, "" when it has none.
func distribution(o options) string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if text, err := os.ReadFile(o.at(path)); err == nil {
			return parsePrettyName(string(text))
		}
	}
	return ""
}

// parsePrettyName reads PRETTY_NAME, which is quoted as for a POSIX shell.
func parsePrettyName(text string) string {
	for row := range strings.Lines(text) {
		value, found := strings.CutPrefix(strings.TrimSpace(row), "PRETTY_NAME=")
		if !found {
			continue
		}
		if len(value) >= 2 && value[0] == value[len(value)-1] && (value[0] == '"' || value[0] == '\'') {
			value = value[1 : len(value)-1]
		}
		return strings.NewReplacer(`\"`, `"`, `\$`, `$`, `\\`, `\`, "\\`", "`").Replace(value)
	}
	return ""
}

// numaNodes are the memory nodes in the order of their ids; none when the
// kernel was built without NUMA.
func numaNodes(o options) []facts.NUMA {
	dirs, _ := filepath.Glob(o.at("/sys/devices/system/node/node[0-9]*")) // fails on a bad pattern only
	var nodes []facts.NUMA
	for _, dir := range dirs {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "meminfo"))
		if err != nil {
			continue // went away between the two looks
		}
		nodes = append(nodes, facts.NUMA{
			ID:    id,
			CPUs:  line(filepath.Join(dir, "cpulist")),
			Bytes: parseNodeTotal(string(text)),
		})
	}
	slices.SortFunc(nodes, func(a, b facts.NUMA) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}

// parseNodeTotal reads "Node 1 MemTotal:       0 kB" of a node's meminfo, in bytes.
func parseNodeTotal(text string) int64 {
	for row := range strings.Lines(text) {
		fields := strings.Fields(row)
		if len(fields) == 5 && fields[2] == "MemTotal:" && fields[4] == "kB" {
			if kib, err := strconv.ParseInt(fields[3], 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
