package checks

import (
	"slices"

	"preflight/checks/fix"
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
func (l *loginTries) cure(s suspect, from, to []string) []fix.Command {
	on := func(nodes []string, command fix.Command) fix.Command {
		if slices.Equal(nodes, s.nodes) {
			return command
		}
		return command.At(nodes...)
	}
	first := l.tries[s.failed[0]]
	try := fix.On("ssh -v -o BatchMode=yes %s true", fix.Host(first.to)).At(first.from)
	switch s.how {
	case "host-key":
		return []fix.Command{
			fix.Here("ssh-keyscan {ssh_port}%s | ssh-keygen -lf -   # compare with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on each", hostsOf(to)),
			on(from, fix.On("ssh-keyscan -H {ssh_port}%s >> ~/.ssh/known_hosts   # only when the fingerprints agree", hostsOf(to))),
		}
	case "denied":
		return []fix.Command{
			on(from, fix.On(`test -f ~/.ssh/id_ed25519 || ssh-keygen -q -t ed25519 -N "" -f ~/.ssh/id_ed25519`)),
			fix.Here("for host in %s; do ssh -n {ssh_port}$host cat .ssh/id_ed25519.pub; done > nodes.pub", fix.List[fix.Host](" ", from)),
			fix.Here("for host in %s; do ssh {ssh_port}$host 'cat >> ~/.ssh/authorized_keys' < nodes.pub; done", fix.List[fix.Host](" ", to)),
			try,
		}
	case "name":
		var commands []fix.Command
		for _, name := range to[:min(4, len(to))] {
			if node := l.nodes[name]; node.Address != "" && fix.IsPlain(hostfile.Bare(name)) {
				commands = append(commands, on(from, fix.On("echo %s %s | sudo tee -a /etc/hosts", fix.Host(node.Address), fix.Host(hostfile.Bare(name)))))
			}
		}
		return append(commands, try)
	case "connect", "timeout":
		return []fix.Command{
			try,
			on(to, fix.On("sudo ss -tlnp | grep ssh; sudo iptables -S INPUT; cat /etc/hosts.allow /etc/hosts.deny   # what sshd listens on, and for whom")),
		}
	case "shell":
		return []fix.Command{try, on(to, fix.On("getent passwd $(id -un)   # a usable login shell?"))}
	}
	return []fix.Command{try}
}

func hostsOf(names []string) fix.Arg {
	var hosts []string
	for _, name := range names {
		hosts = append(hosts, hostfile.Bare(name))
	}
	return fix.List[fix.Host](" ", hosts)
}
