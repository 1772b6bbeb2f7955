package checks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// roster is what it takes to address commands to the machines of a launch.
type roster struct {
	position map[string]int  // a node's place in the hostfile
	root     map[string]bool // nodes where we are root
	headRoot bool            // the same of the launching machine
	port     int             // --ssh_port, 0 for none
	hostfile string          // the one that was read, as a shell takes it
}

func newRoster(fleet facts.Fleet, p launch.Prediction) roster {
	r := roster{position: map[string]int{}, root: map[string]bool{}, port: p.SSHPort, hostfile: ShellWord(cmp.Or(p.HostsFile, "hostfile"))}
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		r.position[node.Name], r.root[node.Name] = i, isRoot(node)
	}
	r.headRoot = fleet.Head != nil && isRoot(fleet.Head)
	return r
}

// fold joins findings that say the same of different nodes, and writes the
// nodes into their fixes and messages.
func (r roster) fold(findings []Finding) []Finding {
	var folded []Finding
	at := map[string]int{}
	for _, f := range findings {
		key := strings.Join(append([]string{string(f.Verdict), f.Summary, f.Got, f.Want, f.WouldSee}, f.Fix...), "\x00")
		if i, seen := at[key]; seen {
			folded[i].Nodes = append(folded[i].Nodes, f.Nodes...)
			continue
		}
		at[key] = len(folded)
		f.Nodes = append([]string{}, f.Nodes...) // never null in JSON, never the check's own slice
		folded = append(folded, f)
	}
	for i := range folded {
		f := &folded[i]
		slices.SortStableFunc(f.Nodes, func(a, b string) int { return cmp.Compare(r.position[a], r.position[b]) })
		f.Nodes = slices.Compact(f.Nodes)
		r.writeNodes(f)
	}
	return folded
}

// loopOverHosts is a loop over a finding's hosts: with one host, its body is enough.
var loopOverHosts = regexp.MustCompile(`for host in \{hosts\}; do (.*?); done`)

// writeNodes fills in the placeholders of a finding's fixes and message.
func (r roster) writeNodes(f *Finding) {
	if len(f.Nodes) == 0 {
		return
	}
	set, first := hostfile.Fold(f.Nodes), f.Nodes[0]
	var hosts []string
	for _, node := range f.Nodes {
		hosts = append(hosts, ShellWord(hostfile.Bare(node)))
	}
	fix := strings.NewReplacer(
		"{ssh}", remoteShell(f.Nodes, r.port), "{nodes}", ShellWord(set), "{node}", ShellWord(first),
		"{host}", hosts[0], "{hosts}", strings.Join(hosts, " "), "{hostfile}", r.hostfile)
	f.Fix = slices.Clone(f.Fix)
	for i, template := range f.Fix {
		if r.asRoot(template, f.Nodes) {
			template = withoutSudo.Replace(template)
		}
		if len(hosts) == 1 {
			template = loopOverHosts.ReplaceAllStringFunc(template, func(loop string) string {
				return strings.ReplaceAll(loopOverHosts.FindStringSubmatch(loop)[1], "$host", "{host}")
			})
		}
		f.Fix[i] = fix.Replace(template)
	}
	f.WouldSee = strings.NewReplacer("{nodes}", set, "{node}", first, "{host}", hostfile.Bare(first)).Replace(f.WouldSee)
}

// remoteShell is the command a person puts before another to run it on nodes.
func remoteShell(nodes []string, port int) string {
	if len(nodes) == 1 {
		if port != 0 {
			return fmt.Sprintf("ssh -p %d %s", port, ShellWord(nodes[0]))
		}
		return "ssh " + ShellWord(nodes[0])
	}
	pdsh := "pdsh -R ssh -w " + ShellWord(hostfile.Fold(nodes))
	if port != 0 {
		return fmt.Sprintf("PDSH_SSH_ARGS_APPEND='-p %d' %s", port, pdsh)
	}
	return pdsh
}

// ShellWord quotes a word for a person to paste into a POSIX shell.
func ShellWord(word string) string {
	if isPlain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// isPlain reports whether a shell takes the word as it stands, however often
// it is parsed: what goes through ssh is parsed once here and once there.
func isPlain(word string) bool {
	special := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("@%+=:,./_-", r)
	}
	return word != "" && strings.IndexFunc(word, special) < 0
}

// onNodes is a command for {ssh} with words that nodes, or files that others
// may write, have sent. It goes through two shells, one here and one there: a
// word that any of them would take for more is left to be looked at by hand.
func onNodes(command string, words ...string) string { return over("{ssh}", command, words...) }

// over is the like by another remoteShell.
func over(shell, command string, words ...string) string {
	var values []any
	for _, word := range words {
		if !isPlain(word) {
			return shell + "   # and look there by hand: what it sent is no text to paste into a shell"
		}
		values = append(values, word)
	}
	return shell + " " + fmt.Sprintf(command, values...)
}

// remoteWord quotes a word for the two shells of {ssh}.
func remoteWord(word string) string {
	if isPlain(word) {
		return word
	}
	return ShellWord(ShellWord(word))
}
