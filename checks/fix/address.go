package fix

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"preflight/hostfile"
)

// Audience is whom the commands of a finding are for.
type Audience struct {
	Nodes    []string               // the finding's, in hostfile order, nil for one of the launching machine
	Port     int                    // --ssh_port, 0 for none
	Hostfile string                 // the one that was read
	IsRoot   func(node string) bool // whether we log in there as root, "" for the launching machine
}

// Addressed is the line to paste.
func (c Command) Addressed(to Audience) string {
	nodes := to.Nodes
	if c.at != "" {
		nodes = strings.Split(c.at, between)
	}
	code, refused := write(c.code, to.arguments, true)
	remark, _ := write(c.remark, to.arguments, false)
	isRemote := (c.place == onNodes || c.place == stated && strings.Contains(c.code, open("ssh"))) && len(nodes) > 0
	switch {
	case c.place == note:
		return "# " + remark
	case (isRemote || c.place == eachHost) && !all(nodes, isHost):
		return "# by hand: what these machines are called is no text to paste into a shell"
	case (c.refused || refused) && isRemote:
		return remoteShell(nodes, to.Port) + remarkMark + "and look there by hand: what it sent is no text to paste into a shell"
	case c.refused || refused:
		return "# by hand: what was sent is no text to paste into a shell"
	}
	code = to.rights(c.place, isRemote, nodes).Replace(code)
	switch {
	case c.place == onNodes && isRemote:
		code = remoteShell(nodes, to.Port) + " " + oneWord(code)
	case c.place == eachHost && len(nodes) != 1:
		code = "for host in " + strings.Join(bare(nodes), " ") + "; do " + code + "; done"
	}
	if remark != "" {
		code += remarkMark + remark
	}
	return code
}

// arguments are what the names in a command stand for that only its audience gives.
func (to Audience) arguments(name string) (Arg, bool) {
	switch {
	case name == "hostfile":
		return Path(to.Hostfile), true
	case len(to.Nodes) == 0:
		return nil, false
	case name == "nodes" && all(to.Nodes, isHost):
		return Word(hostfile.Fold(to.Nodes)), true
	case name == "node" || name == "nodes":
		return Host(to.Nodes[0]), true
	case name == "host":
		return Host(hostfile.Bare(to.Nodes[0])), true
	case name == "hosts":
		return Hosts(bare(to.Nodes)), true
	}
	return nil, false
}

// rights writes what hangs on the account a command runs as, and on the port it calls:
// root needs no sudo, and in a container there often is none.
func (to Audience) rights(p place, isRemote bool, nodes []string) *strings.Replacer {
	runners := []string{""}
	if (isRemote || p == console) && len(nodes) > 0 {
		runners = nodes
	}
	each := "$host"
	if p == eachHost && len(nodes) == 1 {
		each = hostfile.Bare(nodes[0])
	}
	option, rsh := "", ""
	if to.Port != 0 {
		option = fmt.Sprintf("-p %d ", to.Port)
		rsh = fmt.Sprintf(" -e 'ssh -p %d'", to.Port)
	}
	sudo, edit := "", "vi "
	if slices.ContainsFunc(runners, func(name string) bool { return !to.IsRoot(name) }) {
		sudo, edit = "sudo ", "sudoedit "
	}
	return strings.NewReplacer(open("sudo"), sudo, open("sudoedit"), edit, open("ssh_port"), option, open("rsh"), rsh, open("each"), each, open("ssh"), remoteShell(nodes, to.Port))
}

// remoteShell is what a person puts before a command to run it on nodes.
func remoteShell(nodes []string, port int) string {
	switch {
	case len(nodes) == 1 && port == 0:
		return "ssh " + nodes[0]
	case len(nodes) == 1:
		return fmt.Sprintf("ssh -p %d %s", port, nodes[0])
	}
	pdsh := "pdsh -R ssh -w " + Quote(hostfile.Fold(nodes))
	if port != 0 {
		return fmt.Sprintf("PDSH_SSH_ARGS_APPEND='-p %d' %s", port, pdsh)
	}
	return pdsh
}

// oneWord has the shell here hand code on as it stands: in the quotation that changes
// nothing of it.
func oneWord(code string) string {
	switch {
	case !strings.ContainsAny(code, "|&;<>()$`\"'\\*?[]{}~#!\n"):
		return code
	case !strings.Contains(code, "'"):
		return "'" + code + "'"
	case !changesInDouble.MatchString(code):
		return `"` + code + `"`
	}
	return Quote(code)
}

// changesInDouble is what a shell reads in double quotes.
var changesInDouble = regexp.MustCompile("[\"$`!]|\\\\(\\\\|$)")

func isHost(name string) bool { return Host(name).isSafe() }

func bare(nodes []string) (names []string) {
	for _, node := range nodes {
		names = append(names, hostfile.Bare(node))
	}
	return names
}
