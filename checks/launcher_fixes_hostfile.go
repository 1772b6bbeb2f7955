package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/hostfile"
)

// lookAtLine is for mistakes that only their author can put right.
func lookAtLine(note hostfile.Note) []string {
	if note.Line == 0 {
		return []string{"deepspeed --help   # change the option named above"}
	}
	return []string{fmt.Sprintf("sed -n %dp {hostfile}   # change this line as said above", note.Line)}
}

// lineCommand changes the note's line by a command of sed.
func lineCommand(command string) func(View, hostfile.Note) []string {
	return func(_ View, note hostfile.Note) []string {
		if note.Line == 0 {
			return lookAtLine(note)
		}
		return []string{fmt.Sprintf("sed -E -i '%d%s' {hostfile}", note.Line, command)}
	}
}

// portOut takes a port out of a host's name and gives it to ssh.
func portOut(view View, note hostfile.Note) []string {
	i := slices.IndexFunc(view.Launch.Hosts, func(h hostfile.Host) bool { return h.Line == note.Line })
	if i < 0 {
		return lookAtLine(note)
	}
	host, port, _ := strings.Cut(view.Launch.Hosts[i].Name, ":")
	if strings.Trim(port, "0123456789") != "" || port == "" || !isPlain(host) {
		return lookAtLine(note)
	}
	return []string{
		fmt.Sprintf("sed -i '%ds/:%s//' {hostfile}", note.Line, port),
		fmt.Sprintf("deepspeed --ssh_port %s …   # or Port %[1]s for %s in ~/.ssh/config, where the others listen elsewhere", port, host),
	}
}
