package checks

import (
	"fmt"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

var sshBetweenNodes = Check{
	ID:        "ssh-between-nodes",
	Title:     "the nodes log in to each other without a prompt",
	Severity:  Error,
	Needs:     []facts.Section{facts.SectionLogins},
	DependsOn: []string{"host-names"},
	Doc: "Each node tries its own ssh, with its own keys, configuration and known_hosts, to the others: to all where they are few, else to the next one " +
		"and one at random. The launchers of MPI start their daemons node by node that way, and fail; under pdsh only the launching machine logs in, " +
		"so there it is a warning; srun needs no ssh. What fails is blamed on the node that cannot log in or on the one that lets nobody in.",
	WouldSee: sshBetweenWouldSee,
	Run:      judgeLogins,
}

const sshBetweenWouldSee = "ORTE was unable to reliably start one or more daemons, or Permission denied (publickey) from a node that is not this one"

func judgeLogins(view View) []Finding {
	switch by := view.Launch.StartedBy(); {
	case len(view.All) == 1:
		return skip("a single node has no peers")
	case by.Name != "" && !by.SSH:
		return skip(by.Program() + " starts ranks without ssh")
	}
	l := newLoginTries(view)
	findings := l.explained
	for _, node := range l.unable {
		findings = append(findings, Finding{
			Nodes:   []string{node.Name},
			Summary: "cannot log in to the other nodes: " + node.Logins.Error,
			Want:    "an ssh client",
			Remedy:  []fix.Command{fix.On("sudo apt-get install -y openssh-client   # dnf install openssh-clients on Red Hat")},
		})
	}
	for _, s := range suspects(l.names, l.tries) {
		findings = append(findings, l.finding(s))
	}
	if by := view.Launch.StartedBy(); by.SSH && !by.NodesLogIn {
		for i := range findings {
			if findings[i].Verdict == "" {
				findings[i].Verdict = Warn
				findings[i].WouldSee = "nothing under " + by.Name + "; under an MPI launcher, " + sshBetweenWouldSee
			}
		}
	}
	return findings
}

// finding puts a suspect into words.
func (l *loginTries) finding(s suspect) Finding {
	var from, to []string
	for _, i := range s.failed {
		from, to = append(from, l.tries[i].from), append(to, l.tries[i].to)
	}
	login := l.failed[s.failed[0]]
	first := l.tries[s.failed[0]]
	f := Finding{
		Nodes:  s.nodes,
		Got:    fmt.Sprintf("%s to %s: %s", first.from, first.to, login.Message),
		Remedy: l.cure(s, l.inOrder(from), l.inOrder(to)),
	}
	why := loginCauses[s.how]
	if why == "" {
		why = "ssh fails"
	}
	switch s.kind {
	case everywhere:
		f.Summary = "no node can log in to another: " + why
	case between:
		f.Summary = fmt.Sprintf("%s cannot log in to each other: %s", foldSets(s.sets), why)
	case inbound:
		f.Summary = l.scope(s, "no other node can log in there", "%s cannot log in there") + ": " + why
	case outbound:
		f.Summary = l.scope(s, "cannot log in to any other node", "cannot log in to %s") + ": " + why
	case bothWays:
		f.Summary = l.scope(s, "cannot log in to any other node, nor they there", "cannot log in to %s, nor they there") + ": " + why
	default:
		f.Summary = "some nodes cannot log in to some others: " + why
		if lines := arrows(l.tries, s.failed); len(lines) == 1 {
			f.Summary = fmt.Sprintf("the login %s fails: %s", lines[0], why)
		}
	}
	return f
}

func (l *loginTries) scope(s suspect, all, some string) string {
	if s.all {
		return all
	}
	return fmt.Sprintf(some, hostfile.Fold(s.peers))
}
