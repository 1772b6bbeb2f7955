package checks

import (
	"fmt"
	"slices"

	"preflight/facts"
	"preflight/hostfile"
)

// loginTries is every node's tries to log in to others.
type loginTries struct {
	view      View
	names     []string
	nodes     map[string]*facts.Node
	tries     []attempt
	failed    []facts.Login // of each try, zero when it passed
	unable    []*facts.Node // without ssh
	explained []Finding     // skips, where another check names the cause, and unknowns
	// misnaming is the nodes that host-names speaks of, once somebody asks.
	misnaming map[string]bool
}

func newLoginTries(view View) *loginTries {
	l := &loginTries{view: view, nodes: map[string]*facts.Node{}}
	for i := range view.All {
		l.names = append(l.names, view.All[i].Name)
		l.nodes[view.All[i].Name] = &view.All[i]
	}
	saidBy := map[string][]string{}
	for _, node := range view.Nodes {
		if node.Logins.Error != "" {
			l.unable = append(l.unable, node)
			continue
		}
		if len(node.Logins.Passed)+len(node.Logins.Failed) == 0 && len(node.Logins.Untried) > 0 {
			l.explained = append(l.explained, unknown(node, "no time left to try its logins to "+hostfile.Fold(node.Logins.Untried)))
			continue
		}
		for _, peer := range node.Logins.Passed {
			l.add(attempt{from: node.Name, to: peer}, facts.Login{})
		}
		for _, login := range node.Logins.Failed {
			if check := l.saidBy(node, login); check != "" && !view.Policy.SwitchesOff(check) {
				saidBy[check] = append(saidBy[check], node.Name)
				continue
			}
			l.add(attempt{from: node.Name, to: login.Peer, failed: true, how: login.Cause}, login)
		}
	}
	for _, check := range []string{"host-names", "node-mesh", "path-mtu"} {
		if nodes := saidBy[check]; nodes != nil {
			l.explained = append(l.explained, skip(fmt.Sprintf("%s cannot log in to some peers: see %s", hostfile.Fold(nodes), check))...)
		}
	}
	return l
}

func (l *loginTries) add(try attempt, login facts.Login) {
	if l.nodes[try.to] == nil {
		return
	}
	l.tries, l.failed = append(l.tries, try), append(l.failed, login)
}

// saidBy is the check that names why a login failed, "" when it is this one.
func (l *loginTries) saidBy(node *facts.Node, login facts.Login) string {
	peer := l.nodes[login.Peer]
	if peer == nil {
		return ""
	}
	gotThere := slices.Contains([]string{"host-key", "denied", "shell"}, login.Cause)
	switch {
	case l.isMisled(node, peer, gotThere):
		return "host-names"
	case gotThere:
		return ""
	case hasPath(node, peer.Name, func(path facts.Path) bool {
		return path.Outcome == facts.PathUnroutable || path.Control != nil && !*path.Control
	}):
		return "node-mesh"
	case hasPath(node, peer.Name, losesPackets), hasPath(peer, node.Name, losesPackets):
		return "path-mtu"
	}
	return ""
}

// isMisled is whether the name of the peer led the login to no address of it,
// and host-names says so of the caller. Who greets at a wrong address has another
// host key, accepts no key of ours, or is not there at all.
func (l *loginTries) isMisled(node, peer *facts.Node, gotThere bool) bool {
	lookup, asked := lookupOf(node, hostfile.Bare(peer.Name))
	if !asked || len(lookup.Addresses) == 0 && gotThere || leadsTo(lookup.Addresses, peer) {
		return false
	}
	if l.misnaming == nil {
		l.misnaming = l.view.Found("host-names", Fail, Warn, Unknown)
	}
	return l.misnaming[node.Name]
}

// hasPath is whether a call of the mesh drill failed in some way.
func hasPath(node *facts.Node, peer string, is func(facts.Path) bool) bool {
	return node.Mesh != nil && slices.ContainsFunc(node.Mesh.Failed, func(path facts.Path) bool { return path.Peer == peer && is(path) })
}

// inOrder is names in hostfile order, each once.
func (l *loginTries) inOrder(names []string) []string {
	met := map[string]bool{}
	for _, name := range names {
		met[name] = true
	}
	return slices.DeleteFunc(slices.Clone(l.names), func(name string) bool { return !met[name] })
}
