package checks

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/hostfile"
)

// lookAtLine is for mistakes that only their author can put right.
func lookAtLine(note hostfile.Note) []fix.Command {
	if note.Line == 0 {
		return []fix.Command{fix.Here("deepspeed --help   # change the option named above")}
	}
	return []fix.Command{fix.Here("sed -n %sp {hostfile}   # change this line as said above", fix.Number(note.Line))}
}

// lineCommand changes the note's line by a command of sed.
func lineCommand(command fix.Arg) func(View, hostfile.Note) []fix.Command {
	return func(_ View, note hostfile.Note) []fix.Command {
		if note.Line == 0 {
			return lookAtLine(note)
		}
		return []fix.Command{fix.Here("sed -E -i '%s%s' {hostfile}", fix.Number(note.Line), command)}
	}
}

// portOut takes a port out of a host's name and gives it to ssh.
func portOut(view View, note hostfile.Note) []fix.Command {
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
