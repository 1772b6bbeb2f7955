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
	explained []Finding     // skips: another check names the cause
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
		for _, peer := range node.Logins.Passed {
			l.add(attempt{from: node.Name, to: peer}, facts.Login{})
		}
		for _, login := range node.Logins.Failed {
			if check := l.saidBy(node, login); check != "" {
				saidBy[check] = append(saidBy[check], node.Name)
				continue
			}
			l.add(attempt{node.Name, login.Peer, true, login.Cause}, login)
		}
	}
	for _, check := range []string{hostNames.ID, nodeMesh.ID} {
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
	switch login.Cause {
	case "name":
		if node.Names != nil && slices.ContainsFunc(node.Names.Lookups, func(lookup facts.Lookup) bool {
			return lookup.Name == login.Peer && len(lookup.Addresses) == 0 && !lookup.Unanswered
		}) {
			return hostNames.ID
		}
	case "connect", "timeout":
		if node.Mesh != nil && slices.ContainsFunc(node.Mesh.Failed, func(path facts.Path) bool {
			return path.Peer == login.Peer && (path.Outcome == facts.PathUnroutable || path.Control != nil && !*path.Control)
		}) {
			return nodeMesh.ID
		}
	}
	return ""
}

// inOrder is names in hostfile order, each once.
func (l *loginTries) inOrder(names []string) []string {
	met := map[string]bool{}
	for _, name := range names {
		met[name] = true
	}
	return slices.DeleteFunc(slices.Clone(l.names), func(name string) bool { return !met[name] })
}
