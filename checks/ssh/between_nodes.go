// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"cmp"
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

var BetweenNodes = checks.Check{
	ID:        "ssh-between-nodes",
	Severity:  checks.Error,
	Needs:     []facts.Section{facts.SectionLogins},
	DependsOn: []string{"host-names"},
	Run:       judgeLogins,
}

func judgeLogins(view checks.View) []checks.Finding {
	switch by := view.Launch.StartedBy(); {
	case len(view.All) == 1:
		return checks.Skipped("a single node has no peers")
	case by.Name != "" && !by.SSH:
		return checks.Skipped(view.Launch.WithoutSSH(""))
	}
	l := newLoginTries(view)
	findings := l.explained
	for _, node := range l.unable {
		findings = append(findings, checks.Finding{
			Nodes:   []string{node.Name},
			Summary: "cannot log in to the other nodes: " + node.Logins.Error,
			Want:    "an ssh client",
			Remedy:  fix.Install(fix.On, remedy.SystemOf(node), "openssh-client", "openssh-clients"),
		})
	}
	for _, s := range proof.Suspects(l.names, l.tries) {
		findings = append(findings, l.finding(s))
	}
	if by := view.Launch.StartedBy(); by.SSH && !view.Launch.NodesStartOthers() {
		return remarked(findings, by.Name)
	}
	return findings
}

// remarked joins the findings that matter only to launchers whose nodes start each other. It
// replaces them by one remark on a pass.
func remarked(findings []checks.Finding, launcher string) []checks.Finding {
	var blamed, left []checks.Finding
	var nodes []string
	for _, f := range findings {
		if f.Verdict != "" {
			left = append(left, f)
			continue
		}
		blamed, nodes = append(blamed, f), append(nodes, f.Nodes...)
	}
	if blamed == nil {
		return findings
	}
	what := blamed[0].Summary
	if len(blamed) > 1 {
		what = "some nodes cannot log in to others"
	}
	slices.Sort(nodes)
	what = fmt.Sprintf("%s: %s (%s does not need that: only the launching machine logs in to nodes)", hostfile.Fold(slices.Compact(nodes)), what, launcher)
	return append(left, checks.Finding{Verdict: checks.Pass, Summary: what})
}

// finding returns the finding for a suspect of the login test.
func (l *loginTries) finding(s proof.Suspect) checks.Finding {
	first := s.Failed[0]
	return checks.Finding{
		Nodes: s.Nodes,
		Summary: s.Sentence(proof.Words{
			proof.Everywhere: {"no node can log in to another"},
			proof.Between:    {"", "%s cannot log in to each other"},
			proof.Inbound:    {"no other node can log in to it", "%s cannot log in to it"},
			proof.Outbound:   {"cannot log in to any other node", "cannot log in to %s"},
			proof.BothWays:   {"cannot log in to any other node, and none can log in to it", "cannot log in to %s, and they cannot log in to it"},
			proof.Directions: {"some nodes cannot log in to others", "the login %s fails"},
		}) + ": " + cmp.Or(loginCauses[s.How], "ssh fails"),
		Got:    fmt.Sprintf("%s to %s: %s", first.From, first.To, first.Login.Message),
		Remedy: l.remedy(s),
	}
}

// loginTries holds the logins that every node tried to the other nodes.
type loginTries struct {
	view      checks.View
	names     []string
	nodes     map[string]*facts.Node
	tries     []proof.Attempt
	unable    []*facts.Node    // nodes that have no ssh client
	explained []checks.Finding // unknowns, and skips for causes that another check reports
	// misnaming holds the nodes for which host-names reports a finding. It is computed on first
	// use.
	misnaming map[string]bool
}

func newLoginTries(view checks.View) *loginTries {
	l := &loginTries{view: view, nodes: map[string]*facts.Node{}}
	for _, node := range view.Everywhere() {
		l.names = append(l.names, node.Name)
		l.nodes[node.Name] = node
	}
	explained := map[string][]string{} // check → the nodes that it reports
	anyFailed := slices.ContainsFunc(view.Nodes, func(node *facts.Node) bool { return len(node.Logins.Failed) > 0 })
	for _, node := range view.Nodes {
		logins := node.Logins
		if logins.Error != "" {
			l.unable = append(l.unable, node)
			continue
		}
		if len(logins.Passed)+len(logins.Failed) == 0 && len(logins.Untried) > 0 {
			l.explained = append(l.explained, checks.UnknownFor(node, "no time was left to try its logins to "+hostfile.Fold(logins.Untried)))
			continue
		}
		for _, peer := range logins.Passed {
			if anyFailed && l.nodes[peer] != nil { // if no login failed, the passed logins are not needed
				l.tries = append(l.tries, proof.Attempt{From: node.Name, To: peer})
			}
		}
		for i := range logins.Failed {
			login := &logins.Failed[i]
			if l.nodes[login.Peer] == nil {
				continue
			}
			if check := l.explainedBy(node, login); check != "" && !view.Policy.SwitchesOff(check) {
				explained[check] = append(explained[check], node.Name)
				continue
			}
			l.tries = append(l.tries, proof.Attempt{From: node.Name, To: login.Peer, Failed: true, How: login.Cause, Login: login})
		}
	}
	for _, check := range []string{"host-names", "node-mesh", "path-mtu"} {
		if nodes := explained[check]; nodes != nil {
			l.explained = append(l.explained, checks.Skipped(fmt.Sprintf("%s cannot log in to some peers: see %s", hostfile.Fold(nodes), check))...)
		}
	}
	return l
}

// explainedBy returns the check that reports why a login failed, or "" if no other check does.
func (l *loginTries) explainedBy(node *facts.Node, login *facts.Login) string {
	peer := l.nodes[login.Peer]
	gotThere := slices.Contains([]string{"host-key", "host-key-changed", "denied", "shell"}, login.Cause)
	switch {
	case l.isMisled(node, peer, gotThere):
		return "host-names"
	case gotThere:
		return ""
	case proof.HasFailed(node.Mesh, peer.Name, func(path facts.Path) bool {
		return path.Outcome == facts.PathUnroutable || path.Control != nil && !*path.Control
	}):
		return "node-mesh"
	case proof.HasFailed(node.Mesh, peer.Name, proof.LosesPackets), proof.HasFailed(peer.Mesh, node.Name, proof.LosesPackets):
		return "path-mtu"
	}
	return ""
}

// isMisled reports whether the peer's name leads the node to an address that the peer does not
// have, and host-names reports that. The machine at the wrong address has another host key, accepts
// no key, or does not exist.
func (l *loginTries) isMisled(node, peer *facts.Node, gotThere bool) bool {
	lookup, asked := names.LookupOf(node, hostfile.Bare(peer.Name))
	if !asked || len(lookup.Addresses) == 0 && gotThere || names.LeadsTo(lookup.Addresses, peer) {
		return false
	}
	if l.misnaming == nil {
		l.misnaming = l.view.Found("host-names", checks.Fail, checks.Warn, checks.Unknown)
	}
	return l.misnaming[node.Name]
}

// inOrder returns the names in hostfile order, each once.
func (l *loginTries) inOrder(names []string) []string {
	return slices.DeleteFunc(slices.Clone(l.names), func(name string) bool { return !slices.Contains(names, name) })
}

// loginCauses maps the causes of facts.Login to their descriptions.
var loginCauses = map[string]string{
	"name":             "the name does not resolve",
	"connect":          "no connection to sshd",
	"timeout":          "no answer in time",
	"host-key":         "the host key is not in known_hosts",
	"host-key-changed": "the host key differs from known_hosts",
	"denied":           "no key is accepted",
	"shell":            "the login works, but the command fails",
	"other":            "ssh fails",
}

// remedy returns the commands that let the callers of a suspect log in to its callees. A person
// types them on the launching machine.
func (l *loginTries) remedy(s proof.Suspect) []fix.Command {
	var from, to []string
	for _, try := range s.Failed {
		from, to = append(from, try.From), append(to, try.To)
	}
	from, to = l.inOrder(from), l.inOrder(to)
	on := func(nodes []string, command fix.Command) fix.Command {
		if slices.Equal(nodes, s.Nodes) {
			return command
		}
		return command.At(nodes...)
	}
	first := s.Failed[0]
	try := fix.On("ssh -v -o BatchMode=yes %s true", fix.Host(first.To)).At(first.From).As(fix.Look)
	switch s.How {
	case "host-key":
		return []fix.Command{
			fix.Here("ssh-keyscan {ssh_port}%s | ssh-keygen -lf -   # each must match `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on its node", hostsOf(to)).As(fix.Look),
			on(from, fix.On("ssh-keyscan -H {ssh_port}%s >> ~/.ssh/known_hosts   # only if the fingerprints match", hostsOf(to))),
		}
	case "host-key-changed":
		return []fix.Command{
			fix.Here("ssh-keyscan {ssh_port}%s | ssh-keygen -lf -   # each must match `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on its node", hostsOf(to)).As(fix.Look),
			on(from, fix.On(newKeys, hostsOf(to))),
		}
	case "denied":
		return []fix.Command{
			on(from, fix.On(`test -f ~/.ssh/id_ed25519 || ssh-keygen -q -t ed25519 -N "" -f ~/.ssh/id_ed25519`)),
			fix.Here("for host in %s; do ssh -n {ssh_port}$host cat .ssh/id_ed25519.pub; done > nodes.pub", fix.List[fix.Host](" ", from)).As(fix.Then),
			fix.Here("for host in %s; do ssh {ssh_port}$host 'cat >> ~/.ssh/authorized_keys' < nodes.pub; done", fix.List[fix.Host](" ", to)).As(fix.Then),
			try,
		}
	case "name":
		var commands []fix.Command
		for _, name := range to[:min(4, len(to))] {
			if node := l.nodes[name]; node.Address != "" && text.IsPlain(hostfile.Bare(name)) {
				commands = append(commands, on(from, fix.On("echo %s %s | sudo tee -a /etc/hosts", fix.Host(node.Address), fix.Host(hostfile.Bare(name)))))
			}
		}
		return append(commands, try)
	case "connect", "timeout":
		return []fix.Command{
			try,
			on(to, fix.On("sudo ss -tlnp | grep ssh; sudo iptables -S INPUT; cat /etc/hosts.allow /etc/hosts.deny   # where sshd listens, and who may connect").As(fix.Look)),
		}
	case "shell":
		return []fix.Command{try, on(to, fix.On("getent passwd $(id -un)   # is the login shell usable?").As(fix.Look))}
	}
	return []fix.Command{try}
}

// newKeys is a command that replaces the changed keys of hosts in their lines of known_hosts.
// `ssh-keygen -R` would remove whole lines, with the other names that they have.
const newKeys = `for host in %s; do ssh-keyscan {ssh_port}$host 2>/dev/null | while read name type key; do ` +
	`for line in $(ssh-keygen -F $name | sed -n "s/.*found: line \([0-9]*\).*/\1/p"); do ` +
	`sed -i "$line s|$type .*|$type $key|" ~/.ssh/known_hosts; done; done; done   # only if the fingerprints match`

func hostsOf(names []string) fix.Arg {
	return fix.List[fix.Host](" ", text.Map(names, hostfile.Bare))
}
