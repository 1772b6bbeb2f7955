package checks

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/hostfile"
	"preflight/launch"
)

// always is a fix that hangs on nothing.
func always(command fix.Command) func(View, hostfile.Note) []fix.Command {
	return func(View, hostfile.Note) []fix.Command { return []fix.Command{command} }
}

func namedInFull(view View, _ hostfile.Note) []fix.Command {
	return []fix.Command{fix.Here("deepspeed --include %s …   # name the slots of every host", fix.Word(fullInclude(view.Launch)))}
}

func fewerNodes(view View, _ hostfile.Note) []fix.Command {
	return []fix.Command{fix.Here("deepspeed --num_nodes %s …   # or add the missing hosts to the hostfile", fix.Number(len(view.Launch.Hosts)))}
}

// slurmNodes has srun take the hosts of the hostfile.
func slurmNodes(view View, _ hostfile.Note) []fix.Command {
	hosts := hostfile.Fold(hostNamesOf(view))
	return []fix.Command{fix.Here("deepspeed --launcher_args %s …", fix.Word(fmt.Sprintf("--nodelist=%s --nodes=%d", hosts, len(view.Launch.Hosts))))}
}

// evenProcesses is what accelerate starts all the same.
func evenProcesses(view View, _ hostfile.Note) []fix.Command {
	ranks := 0
	for _, host := range view.Launch.Hosts {
		ranks += len(host.Slots)
	}
	return []fix.Command{fix.Here("accelerate launch --num_processes %s …", fix.Number(ranks))}
}

// firstAddress gives the address that DeepSpeed would ask the first host for.
func firstAddress(view View, _ hostfile.Note) []fix.Command {
	address := "ADDRESS"
	if first := view.All[0]; fix.IsPlain(first.Address) {
		address = first.Address
	}
	return []fix.Command{fix.Here("deepspeed --no_ssh --master_addr %s …   # the same on every node", fix.Host(address))}
}

// renamed gives the script a name that no shell reads as something else.
func renamed(view View, _ hostfile.Note) []fix.Command {
	return []fix.Command{fix.Here("mv -- %s %s   # on every node", fix.Path(view.Launch.Script), fix.Path(plain(view.Launch.Script)))}
}

func movedAway(view View, _ hostfile.Note) []fix.Command {
	return []fix.Command{fix.Here("mv -- %s %s   # on every node, and launch from there", fix.Path(view.Launch.WorkDir), fix.Path(plain(view.Launch.WorkDir)))}
}

// plain is a path with all that a shell reads as something else made a "_".
func plain(path string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || fix.IsPlain(string(r)) {
			return r
		}
		return '_'
	}, path)
}

func endedVenv(view View, _ hostfile.Note) []fix.Command {
	return []fix.Command{fix.Here("deepspeed --venv_script %s …", fix.Word(view.Launch.VenvScript+";"))}
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
