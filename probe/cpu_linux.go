package probe

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"preflight/facts"
)

// mostCPUs bounds the affinity mask and the ids we believe; the kernel's own
// bound (CONFIG_NR_CPUS) is 8192 on the largest machines.
const mostCPUs = 8192

func processors(o options) facts.CPU {
	usable := 0
	mask := unix.NewCPUSet(mostCPUs)
	if unix.SchedGetaffinityDynamic(0, mask) == nil {
		usable = mask.Count()
	}
	online := parseList(line(o.at("/sys/devices/system/cpu/online")))
	cpu := facts.CPU{
		Model:   cpuModel(o),
		Sockets: sockets(o, online),
		Online:  cmp.Or(len(online), usable),
		Usable:  usable,
	}
	if c, found := ownCgroup(o, "cpu"); found {
		if quota, _, limited := tightest(c, c.cpuQuota); limited {
			cpu.Quota = &quota
		}
	}
	return cpu
}

// cpuModel reads about one processor and not the whole of /proc/cpuinfo, which
// the kernel takes milliseconds to write on a machine with hundreds.
func cpuModel(o options) string {
	file, err := os.Open(o.at("/proc/cpuinfo"))
	if err != nil {
		return ""
	}
	defer file.Close()
	head := make([]byte, 4096)
	n, _ := io.ReadFull(file, head) // a short file is a whole one
	return parseModel(string(head[:n]))
}

// parseModel is the first processor's name. An ARM kernel prints only the
// numbers of its maker and part, which tell machines apart as well.
func parseModel(cpuinfo string) string {
	field := map[string]string{}
	for row := range strings.Lines(cpuinfo) {
		key, value, found := strings.Cut(row, ":")
		if key = strings.TrimSpace(key); !found || field[key] != "" {
			continue
		}
		field[key] = strings.TrimSpace(value)
	}
	if model := cmp.Or(field["model name"], field["cpu"]); model != "" { // "cpu" is POWER's
		return model
	}
	if field["CPU implementer"] == "" {
		return ""
	}
	return fmt.Sprintf("implementer %s part %s", field["CPU implementer"], field["CPU part"])
}

// sockets counts the packages that the online processors make up, one file a
// package; 0 when the kernel does not say.
func sockets(o options, online []int) int {
	count := 0
	counted := map[int]bool{}
	for _, id := range online {
		if counted[id] {
			continue
		}
		topology := o.at(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology", id))
		siblings := parseList(cmp.Or(line(topology+"/package_cpus_list"), line(topology+"/core_siblings_list"))) // the old name, before 5.3
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

// parseList reads the kernel's lists of processors, "0-3,8,10-11"; nil when the
// text is empty or is no such list.
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
