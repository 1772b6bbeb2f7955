package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/hostfile"
)

// loginCauses is why a login failed, by the causes of facts.Login.
var loginCauses = map[string]string{
	"name":     "ssh there does not resolve the name",
	"connect":  "sshd cannot be connected to from there",
	"timeout":  "no answer in time",
	"host-key": "the host key is not in known_hosts there, and nobody is asked",
	"denied":   "no key is accepted",
	"shell":    "the login works, and the command does not",
	"other":    "ssh fails",
}

// cure is what to type, on the launching machine, to have the suspect's callers
// log in to its callees.
func (l *loginTries) cure(s suspect, from, to []string) []string {
	at := func(nodes []string) string {
		if slices.Equal(nodes, s.nodes) {
			return "{ssh}"
		}
		return remoteShell(nodes, l.view.Launch.SSHPort)
	}
	callers := at(from)
	first := l.tries[s.failed[0]]
	try := fmt.Sprintf("%s ssh -v -o BatchMode=yes %s true", remoteShell([]string{first.from}, l.view.Launch.SSHPort), ShellWord(first.to))
	port := ""
	if l.view.Launch.SSHPort != 0 {
		port = fmt.Sprintf("-p %d ", l.view.Launch.SSHPort)
	}
	switch s.how {
	case "host-key":
		return []string{
			fmt.Sprintf("ssh-keyscan %s%s | ssh-keygen -lf -   # compare with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on each", port, hostsOf(to)),
			fmt.Sprintf("%s 'ssh-keyscan -H %s%s >> ~/.ssh/known_hosts'   # only when the fingerprints agree", callers, port, hostsOf(to)),
		}
	case "denied":
		return []string{
			fmt.Sprintf(`%s 'test -f ~/.ssh/id_ed25519 || ssh-keygen -q -t ed25519 -N "" -f ~/.ssh/id_ed25519'`, callers),
			fmt.Sprintf("for host in %s; do ssh -n %s$host cat .ssh/id_ed25519.pub; done > nodes.pub", entriesOf(from), port),
			fmt.Sprintf("for host in %s; do ssh %s$host 'cat >> ~/.ssh/authorized_keys' < nodes.pub; done", entriesOf(to), port),
			try,
		}
	case "name":
		var fix []string
		for _, name := range to[:min(4, len(to))] {
			if node := l.nodes[name]; node.Address != "" && isPlain(hostfile.Bare(name)) {
				fix = append(fix, fmt.Sprintf(`%s "echo %s %s | sudo tee -a /etc/hosts"`, callers, node.Address, hostfile.Bare(name)))
			}
		}
		return append(fix, try)
	case "connect", "timeout":
		return []string{
			try,
			fmt.Sprintf("%s 'sudo ss -tlnp | grep ssh; sudo iptables -S INPUT; cat /etc/hosts.allow /etc/hosts.deny'   # what sshd listens on, and for whom", at(to)),
		}
	case "shell":
		return []string{try, fmt.Sprintf("%s 'getent passwd $(id -un)'   # a usable login shell?", at(to))}
	}
	return []string{try}
}

func hostsOf(names []string) string {
	var words []string
	for _, name := range names {
		words = append(words, ShellWord(hostfile.Bare(name)))
	}
	return strings.Join(words, " ")
}

func entriesOf(names []string) string {
	var words []string
	for _, name := range names {
		words = append(words, ShellWord(name))
	}
	return strings.Join(words, " ")
}
