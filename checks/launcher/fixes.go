package launcher

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/hostfile"
	"preflight/launch"
)

// always is a fix that hangs on nothing.
func always(command fix.Command) func(checks.View, hostfile.Note) []fix.Command {
	return func(checks.View, hostfile.Note) []fix.Command { return []fix.Command{command} }
}

func namedInFull(view checks.View, _ hostfile.Note) []fix.Command {
	return []fix.Command{fix.Here("deepspeed --include %s …   # name the slots of every host", fix.Word(fullInclude(view.Launch)))}
}

func fewerNodes(view checks.View, _ hostfile.Note) []fix.Command {
	return []fix.Command{fix.Here("deepspeed --num_nodes %s …   # or add the missing hosts to the hostfile", fix.Number(len(view.Launch.Hosts)))}
}

// slurmNodes has srun take the hosts of the hostfile.
func slurmNodes(view checks.View, _ hostfile.Note) []fix.Command {
	hosts := hostfile.Fold(hostNamesOf(view))
	return []fix.Command{fix.Here("deepspeed --launcher_args %s …", fix.Word(fmt.Sprintf("--nodelist=%s --nodes=%d", hosts, len(view.Launch.Hosts))))}
}

// evenProcesses is what accelerate starts all the same.
func evenProcesses(view checks.View, _ hostfile.Note) []fix.Command {
	ranks := 0
	for _, host := range view.Launch.Hosts {
		ranks += len(host.Slots)
	}
	return []fix.Command{fix.Here("accelerate launch --num_processes %s …", fix.Number(ranks))}
}

// firstAddress gives the address that DeepSpeed would ask the first host for.
func firstAddress(view checks.View, _ hostfile.Note) []fix.Command {
	address := "ADDRESS"
	if first := view.All[0]; fix.IsPlain(first.Address) {
		address = first.Address
	}
	return []fix.Command{fix.Here("deepspeed --no_ssh --master_addr %s …   # the same on every node", fix.Host(address))}
}

// renamed gives the script a name that no shell reads as something else.
func renamed(view checks.View, _ hostfile.Note) []fix.Command {
	return []fix.Command{fix.Here("mv -- %s %s   # on every node", fix.Path(view.Launch.Script), fix.Path(plain(view.Launch.Script)))}
}

func movedAway(view checks.View, _ hostfile.Note) []fix.Command {
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

func endedVenv(view checks.View, _ hostfile.Note) []fix.Command {
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
		if note.ID != "include-drops-host" {
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

// lookAtLine is for mistakes that only their author can put right.
func lookAtLine(note hostfile.Note) []fix.Command {
	if note.Line == 0 {
		return []fix.Command{fix.Here("deepspeed --help   # change the option named above")}
	}
	return []fix.Command{fix.Here("sed -n %sp {hostfile}   # change this line as said above", fix.Number(note.Line))}
}

// lineCommand changes the note's line by a command of sed.
func lineCommand(command fix.Arg) func(checks.View, hostfile.Note) []fix.Command {
	return func(_ checks.View, note hostfile.Note) []fix.Command {
		if note.Line == 0 {
			return lookAtLine(note)
		}
		return []fix.Command{fix.Here("sed -E -i '%s%s' {hostfile}", fix.Number(note.Line), command)}
	}
}

// portOut takes a port out of a host's name and gives it to ssh.
func portOut(view checks.View, note hostfile.Note) []fix.Command {
	i := slices.IndexFunc(view.Launch.Hosts, func(h hostfile.Host) bool { return h.Line == note.Line })
	if i < 0 {
		return lookAtLine(note)
	}
	host, port, _ := strings.Cut(view.Launch.Hosts[i].Name, ":")
	if strings.Trim(port, "0123456789") != "" || port == "" || !fix.IsPlain(host) {
		return lookAtLine(note)
	}
	return []fix.Command{
		fix.Here("sed -i '%ss/:%s//' {hostfile}", fix.Number(note.Line), fix.Name(port)),
		fix.Here("deepspeed --ssh_port %s …", fix.Name(port)).Remark("or Port %s for %s in ~/.ssh/config, where the others listen elsewhere", fix.Name(port), fix.Host(host)),
	}
}
