package checks

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"preflight/hostfile"
	"preflight/launch"
)

// trapFix is the command with the mistake taken out of its argument or, for a
// mistake of the hostfile, which line to change: only its reader knows the file.
func trapFix(note hostfile.Note, prediction launch.Prediction) []string {
	switch note.Trap {
	case "include-drops-host":
		return []string{fmt.Sprintf("deepspeed --include %s …   # name the slots of every host", shellWord(fullInclude(prediction)))}
	case "include-unchecked-slots":
		return []string{fmt.Sprintf("deepspeed --include 'NAME:0,1,…' …   # only slots that line %d of the hostfile gives; they count from 0", note.Line)}
	case "num-gpus-beyond-slots":
		return []string{"deepspeed --num_gpus N …   # at most the slots of the host that has the fewest"}
	case "num-nodes-beyond-hostfile":
		return []string{fmt.Sprintf("deepspeed --num_nodes %d …   # or add the missing hosts to the hostfile", len(prediction.Hosts))}
	case "single-host-runs-here":
		return []string{"deepspeed --force_multi …   # or type the launch on that host, without a hostfile"}
	}
	if note.Line > 0 {
		return []string{fmt.Sprintf("# line %d of the hostfile: change it as said above", note.Line)}
	}
	return []string{"deepspeed --help   # change the option named above"}
}

// writtenOut is how a note ends that says what a bare name should have been.
var writtenOut = regexp.MustCompile(`: write (\S+:\d+(?:,\d+)*)$`)

// fullInclude is the --include that was meant: the hosts that are left and those
// that were dropped for want of slots, in hostfile order.
func fullInclude(prediction launch.Prediction) string {
	specs := map[int][]string{} // by line of the hostfile
	for _, host := range prediction.Hosts {
		specs[host.Line] = append(specs[host.Line], host.Name+":"+strings.Trim(strings.ReplaceAll(fmt.Sprint(host.Slots), " ", ","), "[]"))
	}
	for _, note := range prediction.Notes {
		if note.Trap != "include-drops-host" {
			continue
		}
		written := writtenOut.FindStringSubmatch(note.Message)
		if written == nil {
			return "NAME:0,1,2,3,4,5,6,7"
		}
		specs[note.Line] = append(specs[note.Line], written[1])
	}
	var include []string
	for _, line := range slices.Sorted(maps.Keys(specs)) {
		include = append(include, specs[line]...)
	}
	return strings.Join(include, "@")
}
