// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/probe/machine"
)

// CollectHost returns the identity of this machine. It fails without /proc.
func CollectHost(ctx context.Context, o machine.Options) (*facts.Host, error) {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return nil, fmt.Errorf("uname: %w", err)
	}
	boot := machine.Line(o.At("/proc/sys/kernel/random/boot_id"))
	if boot == "" {
		return nil, errors.New("/proc is not mounted: preflight cannot read the boot ID and most other facts")
	}
	netns, _ := os.Readlink(o.At("/proc/self/ns/net")) // "" if the kernel has no namespaces
	uptime, _, _ := strings.Cut(machine.Line(o.At("/proc/uptime")), " ")
	up, err := strconv.ParseFloat(uptime, 64)
	if err != nil {
		return nil, fmt.Errorf("/proc/uptime is malformed: %q", uptime)
	}
	who, uid := machine.Session(o), os.Getuid()
	host := &facts.Host{
		Hostname:     unix.ByteSliceToString(uname.Nodename[:]),
		BootID:       boot,
		MachineID:    cmp.Or(machine.Line(o.At("/etc/machine-id")), machine.Line(o.At("/var/lib/dbus/machine-id"))),
		NetNamespace: netns,
		OS:           distribution(o),
		Kernel:       unix.ByteSliceToString(uname.Release[:]),
		Arch:         unix.ByteSliceToString(uname.Machine[:]),
		Libc:         libc(o),
		CPU:          processors(o),
		NUMA:         numaNodes(o),
		Container:    container(o),
		User:         who.Name,
		UID:          &uid,
		Home:         who.Home,
		Shell:        who.Shell,
		Tools:        tools(o),
		Uptime:       up,
		Load:         load(o),
	}
	var hasFirewalld bool
	host.Containers, host.Launches, hasFirewalld = running(ctx, o)
	if host.Container != "" {
		host.Containers = nil
	} else {
		host.Firewalls = firewalls(o, hasFirewalld)
	}
	return host, nil
}

// tools returns which of the programs that fixes may use are installed.
func tools(o machine.Options) []string {
	found := []string{} // not nil, which would mean unknown
	for _, name := range []string{"firewall-cmd", "iptables", "nft", "rsync", "ufw"} {
		if slices.ContainsFunc([]string{"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"}, func(dir string) bool {
			_, err := os.Stat(o.At(dir + name))
			return err == nil
		}) {
			found = append(found, name)
		}
	}
	return found
}

// firewalls returns which firewalls are active. ufw has no process, so its configuration counts.
func firewalls(o machine.Options, hasFirewalld bool) []string {
	active := []string{} // not nil, which would mean unknown
	if hasFirewalld {
		active = append(active, facts.Firewalld)
	}
	text, _ := os.ReadFile(o.At("/etc/ufw/ufw.conf")) // without this file, ufw is not installed
	if value, _ := machine.After(string(text), "ENABLED="); strings.EqualFold(strings.Trim(value, `"' `), "yes") {
		active = append(active, facts.UFW)
	}
	return active
}

// load returns the load average of one minute, nil if the kernel does not report it.
func load(o machine.Options) *float64 {
	if n, err := strconv.ParseFloat(machine.FirstWord(machine.Line(o.At("/proc/loadavg"))), 64); err == nil {
		return &n
	}
	return nil
}

// distribution returns the human-readable name from os-release(5), or "" if there is no such file.
func distribution(o machine.Options) string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if text, err := os.ReadFile(o.At(path)); err == nil {
			return parsePrettyName(string(text))
		}
	}
	return ""
}

// parsePrettyName reads PRETTY_NAME, which is quoted for a POSIX shell.
func parsePrettyName(text string) string {
	value, _ := machine.After(text, "PRETTY_NAME=")
	if len(value) >= 2 && value[0] == value[len(value)-1] && (value[0] == '"' || value[0] == '\'') {
		value = value[1 : len(value)-1]
	}
	return strings.NewReplacer(`\"`, `"`, `\$`, `$`, `\\`, `\`, "\\`", "`").Replace(value)
}

// numaNodes returns the memory nodes sorted by ID. It returns none if the kernel was built without
// NUMA.
func numaNodes(o machine.Options) []facts.NUMA {
	dirs, _ := filepath.Glob(o.At("/sys/devices/system/node/node[0-9]*")) // fails only on a bad pattern
	var nodes []facts.NUMA
	for _, dir := range dirs {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "meminfo"))
		if err != nil {
			continue // the node was removed after the directory was listed
		}
		nodes = append(nodes, facts.NUMA{
			ID:    id,
			CPUs:  machine.Line(filepath.Join(dir, "cpulist")),
			Bytes: parseNodeTotal(string(text)),
		})
	}
	slices.SortFunc(nodes, func(a, b facts.NUMA) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}

// parseNodeTotal reads a line of a node's meminfo, such as "Node 1 MemTotal:       0 kB". The
// result is in bytes.
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

// mostCPUs limits the affinity mask and the CPU IDs that are accepted. The kernel's own limit
// (CONFIG_NR_CPUS) is 8192 on the largest machines.
const mostCPUs = 8192

func processors(o machine.Options) facts.CPU {
	usable := 0
	mask := unix.NewCPUSet(mostCPUs)
	if unix.SchedGetaffinityDynamic(0, mask) == nil {
		usable = mask.Count()
	}
	online := parseList(machine.Line(o.At("/sys/devices/system/cpu/online")))
	cpu := facts.CPU{
		Model:   cpuModel(o),
		Sockets: sockets(o, online),
		Online:  cmp.Or(len(online), usable),
		Usable:  usable,
	}
	if c, found := machine.CgroupOf(o, "self", "cpu"); found {
		if quota, _, limited := machine.Tightest(c, c.CPUQuota); limited {
			cpu.Quota = &quota
		}
	}
	return cpu
}

// cpuModel reads the entry of one CPU and not all of /proc/cpuinfo. Reading the whole file takes
// the kernel milliseconds on a machine with hundreds of CPUs.
func cpuModel(o machine.Options) string {
	file, err := os.Open(o.At("/proc/cpuinfo"))
	if err != nil {
		return ""
	}
	defer file.Close()
	head := make([]byte, 4096)
	n, _ := io.ReadFull(file, head) // an error means only that the file is short
	return parseModel(string(head[:n]))
}

// parseModel returns the first CPU's name. An ARM kernel prints only the numbers of the vendor and
// the part, which also distinguish machines.
func parseModel(cpuinfo string) string {
	field := map[string]string{}
	for row := range strings.Lines(cpuinfo) {
		key, value, found := strings.Cut(row, ":")
		if key = strings.TrimSpace(key); !found || field[key] != "" {
			continue
		}
		field[key] = strings.TrimSpace(value)
	}
	if model := cmp.Or(field["model name"], field["cpu"]); model != "" { // POWER has "cpu"
		return model
	}
	if field["CPU implementer"] == "" {
		return ""
	}
	return fmt.Sprintf("implementer %s part %s", field["CPU implementer"], field["CPU part"])
}

// sockets counts the packages of the online CPUs, by reading one file per package. It returns 0 if
// the kernel does not report packages.
func sockets(o machine.Options, online []int) int {
	count := 0
	counted := map[int]bool{}
	for _, id := range online {
		if counted[id] {
			continue
		}
		topology := o.At(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology", id))
		siblings := parseList(cmp.Or(machine.Line(topology+"/package_cpus_list"), machine.Line(topology+"/core_siblings_list"))) // Linux before 5.3 uses the second name
		if len(siblings) == 0 {
			return 0
		}
		count++
		for _, sibling := range siblings {
			counted[sibling] = true
		}
	}
	return count
}

// parseList parses one of the kernel's CPU lists, "0-3,8,10-11". It returns nil for empty or
// invalid text.
func parseList(text string) []int {
	var ids []int
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		if err != nil {
			return nil
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(high); err != nil {
				return nil
			}
		}
		if first < 0 || last >= mostCPUs {
			return nil
		}
		for id := first; id <= last; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}
