package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// pdshRefusals are ways in which the ssh that pdsh starts fails where our own
// login did not, by ssh's own words (OpenSSH 9.2).
var pdshRefusals = []struct {
	says    string
	summary string
	fix     []fix.Command
}{
	{"Host key verification failed", "pdsh's ssh does not know its host key: pdsh has no terminal to ask on", []fix.Command{askForKey}},
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "pdsh's ssh has another host key for it", []fix.Command{fix.Here("ssh-keygen -F {host}   # which file has which key")}},
	{"Permission denied", "pdsh's ssh is refused the login", nil},
	{"Too many authentication failures", "pdsh's ssh offers more keys than the server hears out", []fix.Command{fix.Here("ssh-add -l")}},
	{"Could not resolve hostname", "pdsh's ssh does not know the name", []fix.Command{fix.Here("ssh -G {node} | grep -i ^hostname")}},
	{"Connection refused", "pdsh's ssh knocks where no SSH server listens", []fix.Command{fix.Here("ssh -G {node} | grep -E '^(hostname|port) '")}},
	{"timed out", "pdsh's ssh gets no answer in its 10 s", nil},
	{"Bad configuration option", "ssh does not understand its own configuration", nil},
	{"Bad owner or permissions", "ssh refuses its own configuration", []fix.Command{fix.Here("chmod go-w ~/.ssh ~/.ssh/config")}},
	{"No such rcmd module", "pdsh takes a part of the name for a module of its own", nil},
	{"command timeout", "pdsh ended the command by its own time limit", []fix.Command{fix.Here("unset PDSH_COMMAND_TIMEOUT")}},
}

// noEcho is a node that let us in and from which pdsh got no echo.
func noEcho(view View, said facts.RehearsalNode) Finding {
	f := Finding{
		Nodes: []string{said.Node}, Summary: "pdsh gets no answer from it",
		Got: "neither output nor an error", WouldSee: "nothing: the node runs no rank, and the others wait for it",
	}
	if words := lastSaid(said.Errors); words != "" {
		// What differs from node to node keeps findings apart that are one.
		f.Got, f.WouldSee = "", "{node}: "+strings.ReplaceAll(words, hostfile.Bare(said.Node), "{host}")
	}
	refused := slices.ContainsFunc(said.Errors, func(line string) bool { return strings.Contains(line, exitWords) })
	for _, refusal := range pdshRefusals {
		if slices.ContainsFunc(said.Errors, func(line string) bool { return strings.Contains(line, refusal.says) }) {
			refused, f.Summary = true, refusal.summary
			f.Remedy = slices.Clone(refusal.fix)
			break
		}
	}
	if problem := view.Head.Rehearsal.Problem; problem != "" && !refused {
		return Finding{Verdict: Unknown, Nodes: f.Nodes, Summary: fmt.Sprintf("whether pdsh gets an answer from it is not known (pdsh: %s)", problem)}
	}
	f.Summary += ", although preflight logged in"
	f.Remedy = append(f.Remedy, pdshLogin().Remark("what pdsh runs"))
	for _, name := range []string{"PDSH_SSH_ARGS", "PDSH_SSH_ARGS_APPEND"} {
		if value := headVariable(view, name); value != "" {
			f.Remedy = append(f.Remedy, fix.Here("unset %s   # it is %s", fix.Variable(name), fix.Word(value)))
		}
	}
	return f
}

// exitWords are pdsh's own on an ssh that failed (modules/sshcmd.c).
const exitWords = "exited with exit code"

// lastSaid is the line that tells most: pdsh's own word on ssh's exit code is the
// last one and the least.
func lastSaid(errors []string) string {
	for _, line := range slices.Backward(errors) {
		if !strings.Contains(line, exitWords) && line != "…" {
			return line
		}
	}
	if len(errors) == 0 {
		return ""
	}
	return errors[0]
}

// pdshLogin is the login that pdsh's ssh module makes (pdsh 2.34,
// modules/sshcmd.c), without the variables that change it.
func pdshLogin() fix.Command {
	return fix.Here("ssh -v -oConnectTimeout=10 {ssh_port}-2 -a -x {node} true")
}

func headVariable(view View, name string) string {
	if view.Head.Env == nil {
		return ""
	}
	i := slices.IndexFunc(view.Head.Env.Vars, func(s facts.Setting) bool { return s.Name == name })
	if i < 0 {
		return ""
	}
	return view.Head.Env.Vars[i].Value
}
