package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// EndpointReport is who is at one host:port, seen from everywhere that matters.
type EndpointReport struct {
	Schema      int            `json:"schema"`
	Version     string         `json:"version"`
	Endpoint    string         `json:"endpoint"`
	Verdict     Verdict        `json:"verdict"` // pass when a store answers everywhere, warn where it may be another one
	ExitCode    int            `json:"exit_code"`
	Seconds     float64        `json:"seconds"`
	Interrupted bool           `json:"interrupted,omitempty"`
	Here        facts.Endpoint `json:"here"` // from the launching machine
	Nodes       []EndpointNode `json:"nodes"`
	Findings    []Finding      `json:"findings"`
}

// EndpointNode is one node and what it found there.
type EndpointNode struct {
	facts.Node
	Seen *facts.Endpoint `json:"endpoint,omitempty"` // nil when the node could not look
	Lost string          `json:"lost,omitempty"`     // why a node that was reached could not
}

// JudgeEndpoint says what is wrong with an endpoint, the fewest nodes blamed:
// what all machines see alike is the endpoint's fault, what few see is theirs.
// Nodes decide; without any, the launching machine does.
func JudgeEndpoint(r *EndpointReport, sshPort int) {
	fleet := facts.Fleet{}
	seen := map[string]*facts.Endpoint{}
	var lookers []*facts.Node
	for i := range r.Nodes {
		node := &r.Nodes[i]
		fleet.Nodes = append(fleet.Nodes, node.Node)
		if node.Seen != nil {
			seen[node.Name] = node.Seen
			lookers = append(lookers, &node.Node)
		}
	}
	var findings []Finding
	if len(r.Nodes) == 0 {
		findings = append(findings, atEndpoint(r.Endpoint, nil, &r.Here)...)
	}
	findings = append(findings, elsewhere(r.Endpoint, lookers, seen)...)
	astray := func(n *facts.Node) bool { // what it meets elsewhere says nothing of this endpoint
		return slices.ContainsFunc(findings, func(f Finding) bool { return slices.Contains(f.Nodes, n.Name) })
	}
	there := slices.DeleteFunc(slices.Clone(lookers), astray)
	for _, g := range groupBy(there, func(n *facts.Node) string { return answerOf(seen[n.Name]) }) {
		findings = append(findings, atEndpoint(r.Endpoint, g.Nodes, seen[g.Nodes[0]])...)
	}
	for _, node := range r.Nodes {
		if node.Seen == nil {
			reason := cmp.Or(node.Lost, "not reached: "+messageOf(node.SSH))
			findings = append(findings, Finding{Verdict: Unknown, Nodes: []string{node.Name}, Summary: reason})
		}
	}
	for i := range findings {
		findings[i].Check = "rendezvous"
		findings[i].Verdict = cmp.Or(findings[i].Verdict, Fail)
	}
	r.Findings = append([]Finding{}, newRoster(fleet, launch.Prediction{SSHPort: sshPort}).fold(findings)...)
	r.conclude()
}

func messageOf(ssh *facts.SSH) string {
	if ssh == nil {
		return "no login was tried"
	}
	return ssh.Message
}

func (r *EndpointReport) conclude() {
	r.Verdict, r.ExitCode = Pass, 0
	if r.Interrupted {
		r.Verdict, r.ExitCode = Unknown, 2
	}
	for _, f := range r.Findings {
		switch {
		case f.Verdict == Fail:
			r.Verdict, r.ExitCode = Fail, 1
			return
		case f.Verdict == Unknown:
			r.Verdict, r.ExitCode = Unknown, 2
		case f.Verdict == Warn && r.Verdict == Pass:
			r.Verdict = Warn
		}
	}
}

// answerOf tells machines apart that find different things.
func answerOf(e *facts.Endpoint) string {
	return fmt.Sprint(e.Failed, e.Outcome, e.Store, e.Greeting, e.Failed == facts.HopResolve && e.Error != "")
}

// atEndpoint says what is wrong where these nodes looked; nothing when a store
// answered them.
func atEndpoint(endpoint string, nodes []string, e *facts.Endpoint) []Finding {
	if e.Failed == "" {
		return nil
	}
	host, port := splitEndpoint(endpoint)
	address := cmp.Or(e.Address, strings.Join(e.Addresses, " and "), host)
	listening := fix.On("ss -tlnp sport = :%s", fix.Name(port)).At(host)
	f := Finding{Nodes: nodes, Got: e.Error}
	switch {
	case e.Failed == facts.HopResolve:
		f.Summary = fmt.Sprintf("the name %s does not resolve", host)
		f.Remedy = []fix.Command{lookUpName(host)}
		f.WouldSee = fmt.Sprintf("The IPv6 network addresses of (%s, %s) cannot be retrieved (gai error: -2 - Name or service not known)", host, port)
	case e.Outcome == facts.PathRefused:
		f.Summary = fmt.Sprintf("nothing listens on port %s of %s: rank 0 has not come that far, has died, or serves elsewhere", port, address)
		f.Want = "rank 0's store; read rank 0's log first"
		f.Remedy = []fix.Command{listening}
	case e.Outcome == facts.PathDropped:
		f.Summary = fmt.Sprintf("no answer from %s: a firewall drops what is sent to port %s, or the machine is off", address, port)
		f.Remedy = []fix.Command{fix.On("sudo iptables -S INPUT").At(host), listening}
	case e.Outcome == facts.PathRejected:
		f.Summary = fmt.Sprintf("a firewall or router turns away what is sent to port %s of %s", port, address)
		f.Remedy = []fix.Command{fix.On("sudo iptables -S INPUT").At(host), fix.On("ip route get %s", fix.Host(cmp.Or(append([]string{e.Address}, e.Addresses...)...)))}
	case e.Outcome == facts.PathUnroutable:
		f.Summary = "there is no route to " + address
		f.Remedy = []fix.Command{fix.On("ip route get %s", fix.Host(cmp.Or(append([]string{e.Address}, e.Addresses...)...)))}
	case e.Greeting != "":
		f.Summary = fmt.Sprintf("port %s belongs to another service: it greets with %q", port, e.Greeting)
		f.Remedy = []fix.Command{listening, fix.Here("deepspeed --master_port=PORT …   # another port, the same in every command")}
	case e.Outcome == facts.PathSilent:
		f.Summary = fmt.Sprintf("port %s of %s takes calls and says nothing: rank 0 hangs, or another service is there", port, address)
		f.Remedy = []fix.Command{listening, fix.On("ps -ef").At(host)}
	default:
		f.Summary = fmt.Sprintf("whoever listens on port %s of %s is no torch store", port, address)
		f.Remedy = []fix.Command{listening}
	}
	if len(nodes) == 0 {
		for i := range f.Remedy {
			f.Remedy[i] = f.Remedy[i].Locally()
		}
	}
	f.WouldSee = cmp.Or(f.WouldSee, fmt.Sprintf("The client socket has timed out after 600000ms while trying to connect to (%s, %s).", host, port))
	return []Finding{f}
}

func splitEndpoint(endpoint string) (host, port string) {
	at := strings.LastIndexByte(endpoint, ':')
	if at < 0 {
		return endpoint, ""
	}
	return strings.Trim(endpoint[:at], "[]"), endpoint[at+1:]
}
