// SPDX-License-Identifier: Apache-2.0

// Package ssh checks the logins to every node and between nodes. Its checks follow the steps of a
// login, and a failed login fails only one of these checks.
//
// The fixes of the package never suggest accepting a changed host key or entering a password.
package ssh

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/facts"
	"preflight/internal/text"
)

// ladder lists the ssh checks in the order in which a login passes them. A check's rung is its
// position in the list. A node fails the check of its cause, passes the checks before it, and never
// reaches the checks after it.
var ladder = []string{"ssh-reach", "ssh-host-key", "ssh-login", "ssh-shell", enterID, "agent-start"}

// enterID is the ID of the check Inside.
const enterID = "container-enter"

// ofTheNode lists the checks of the ladder that concern ssh on the node, whether or not its ranks
// run in a container.
var ofTheNode = ladder[:4]

// checkOf maps the stages of a login to the checks that fail at them.
var checkOf = map[string]string{
	"resolve": "ssh-reach", "connect": "ssh-reach", "greet": "ssh-reach", "negotiate": "ssh-reach",
	"host-key": "ssh-host-key",
	"login":    "ssh-login",
	"session":  "ssh-shell", "shell": "ssh-shell",
	"inside":  enterID,
	"deliver": "agent-start", "start": "agent-start", "talk": "agent-start",
}

// onLadder completes a check of the ladder. The check fails nodes whose login stopped at its rung,
// or reports them as unknown if the launch needs no login. open returns the check's findings for
// nodes whose login succeeded.
func onLadder(c checks.Check, open func(checks.View, *facts.Node) []checks.Finding) checks.Check {
	c.Rung, c.Stopped = slices.Index(ladder, c.ID)+1, stoppedAt
	c.Severity, c.Needs = checks.Error, []facts.Section{facts.SectionSSH}
	c.Run = func(view checks.View) []checks.Finding {
		if by := carriedBy(view); by != "" && slices.Contains(ofTheNode, c.ID) {
			return checks.Skipped("preflight reached the nodes through " + by + ", not ssh")
		}
		var findings []checks.Finding
		cut := allCutOff(view)
		for _, node := range view.Nodes {
			if at, f := stoppedAt(node); at == c.Rung {
				_, what := failureOf(node.SSH)
				if cut {
					what, f = failures().AllSilent, failures().AllSilent.finding(node)
				}
				if c.ID == "ssh-host-key" {
					f = atAnother(view, node, f)
				}
				findings = append(findings, what.weighed(f, node, view.Launch))
			} else if at == 0 && open != nil {
				findings = append(findings, open(view, node)...)
			}
		}
		if c.ID == enterID && findings == nil && !slices.ContainsFunc(view.Nodes, func(node *facts.Node) bool { return node.SSH.Inside != nil }) {
			return checks.Skipped("no --in: preflight checked the nodes themselves")
		}
		return findings
	}
	return c
}

// atAnother completes the finding about an unexpected host key if another node has the address as
// well. That node has answered in place of the called one, so its key must not be accepted.
func atAnother(view checks.View, node *facts.Node, f checks.Finding) checks.Finding {
	holder, takeAway := names.AlsoHeld(view, node)
	if holder == nil {
		return f
	}
	f.Nodes = []string{node.Name, holder.Name}
	f.Summary = fmt.Sprintf("%s also has %s, the address of %s, and shows another host key", holder.Name, node.Address, node.Name)
	f.Want, f.Remedy = "one machine for every address", []fix.Command{takeAway}
	return f
}

// allCutOff reports whether all nodes first answered, then stopped answering, and accepted no new
// connection. Each of them may have died, but a more likely cause is the network of the launching
// machine, which they share.
func allCutOff(view checks.View) bool {
	return len(view.Nodes) > 1 && !slices.ContainsFunc(view.Nodes, func(node *facts.Node) bool {
		return node.SSH.Cause != "frozen" || node.SSH.Detail["unreached"] == ""
	})
}

// carriedBy returns the program that reached all nodes in place of ssh, or "" for ssh.
func carriedBy(view checks.View) string {
	for _, node := range view.Nodes {
		if node.SSH.Carrier == "" {
			return ""
		}
	}
	return view.Nodes[0].SSH.Carrier
}

var Reach = onLadder(checks.Check{ID: "ssh-reach"}, nil)

var HostKey = onLadder(checks.Check{ID: "ssh-host-key"}, nil)

var Login = onLadder(checks.Check{ID: "ssh-login", Volatile: true}, unlikeOpenSSH)

// Inside checks the command that enters the container (--in), whatever program reached the node.
var Inside = onLadder(checks.Check{ID: enterID}, nil)

var AgentStart = onLadder(checks.Check{ID: "agent-start", Volatile: true}, started)

// started warns about a cached agent that was modified. It also returns a remark for a node whose
// agent could not connect to the launching machine.
func started(_ checks.View, node *facts.Node) (findings []checks.Finding) {
	if why := node.SSH.Uncalled; why != "" {
		findings = append(findings, checks.Finding{Verdict: checks.Pass, Nodes: []string{node.Name}, Summary: "the agents could not call the launching machine (" + why +
			"), so preflight started each with its own srun: open SrunPortRange of slurm.conf, or pass --callback HOST:PORT"})
	}
	if node.SSH.Distrusted == "" {
		return findings
	}
	file, _, _ := strings.Cut(node.SSH.Distrusted, ": ") // the new copy may be in another directory
	return append(findings, checks.Finding{
		Verdict: checks.Warn, Nodes: []string{node.Name},
		Summary:  "the cached agent had been modified: preflight did not run it and copied a new one",
		Got:      node.SSH.Distrusted,
		Want:     "a file that only preflight writes to",
		Remedy:   []fix.Command{fix.On("ls -lan %s   # who else may write there?", fix.Path(path.Dir(file))).As(fix.Look)},
		WouldSee: "nothing: a full disk truncates the file, and any process of the account can change it",
	})
}

// unlikeOpenSSH warns if the system's ssh, which the launch uses, would behave differently from
// preflight's own ssh client.
func unlikeOpenSSH(view checks.View, node *facts.Node) []checks.Finding {
	asked := func(answer facts.RehearsalNode) bool {
		return answer.Node == node.Name && len(answer.Ranks)+len(answer.Errors) > 0
	}
	var tried *facts.Rehearsal // pdsh has called ssh, and launcher-ready reports what came of it
	if view.Head != nil {
		tried = view.Head.Rehearsal
	}
	if len(node.SSH.OpenSSH) == 0 || view.Launch.WithoutSSH(node.Name) != "" || tried != nil && slices.ContainsFunc(tried.Nodes, asked) {
		return nil
	}
	return []checks.Finding{{
		Verdict: checks.Warn, Nodes: []string{node.Name},
		Summary:  "preflight could log in, but the system's ssh client would behave differently",
		Got:      openSSH(node.SSH),
		Want:     "a login with ssh without any prompt",
		Remedy:   []fix.Command{failures().Commands["try-by-ssh"]},
		WouldSee: "{node}: ssh exited with exit code 255",
	}}
}

// stoppedAt returns the rung at which the login to a node failed, with the finding. The rung is 0
// if the login did not fail.
func stoppedAt(node *facts.Node) (at int, f checks.Finding) {
	if node.SSH == nil || node.SSH.Cause == "" {
		return 0, checks.Finding{}
	}
	check, what := failureOf(node.SSH)
	return slices.Index(ladder, check) + 1, what.finding(node)
}

var Shell = onLadder(checks.Check{ID: "ssh-shell"}, func(v checks.View, node *facts.Node) []checks.Finding {
	if v.Launch.WithoutSSH(node.Name) != "" {
		return nil
	}
	return append(noisy(v, node), ended(node)...)
})

// shortSession is the time in seconds within which no training ends. A launch takes minutes before
// its ranks have met.
const shortSession = 10 * 60

// shortSilence is a time in seconds for which every launch is silent, while its ranks import torch
// and meet.
const shortSilence = 15

// ended returns the finding for a login that ends its command after some time.
func ended(node *facts.Node) []checks.Finding {
	if node.Limits == nil || node.Limits.Ends == nil {
		return nil
	}
	end := node.Limits.Ends
	f := checks.Finding{
		Verdict: checks.Warn,
		Nodes:   []string{node.Name},
		Summary: fmt.Sprintf("the login ends every command after %s", text.Duration(end.Seconds)),
		Got:     fmt.Sprintf("%q runs between sshd and the command", end.By),
		Want:    "no time limit on the commands of a login",
		Remedy: []fix.Command{
			fix.Console(`sudo sshd -T -C user={user} | grep -i forcecommand; grep -n timeout ~{user}/.ssh/authorized_keys ~{user}/.bashrc   # on {node}'s console: which of them runs it`).As(fix.Look),
			fix.Note("remove the timeout there; a changed sshd_config needs: sudo systemctl reload sshd"),
		},
		WouldSee: "{node}: ssh exited with exit code 124, when that time is over",
	}
	if end.Silent {
		f.Summary = "sshd closes a session that prints nothing for " + text.Duration(end.Seconds)
		f.Got, f.Want, f.WouldSee = end.By, "no ChannelTimeout for sessions", "{node}: ssh exited with exit code 255, while a rank imports torch or trains in silence"
		f.Remedy = []fix.Command{
			fix.On(`sudo grep -rin channeltimeout /etc/ssh/sshd_config /etc/ssh/sshd_config.d`).As(fix.Look),
			fix.On(`sudo sed -i.before "s/^[[:space:]]*ChannelTimeout/#&/I" $(sudo grep -rli channeltimeout /etc/ssh/sshd_config /etc/ssh/sshd_config.d) && sudo systemctl reload ssh   # on Red Hat the unit is sshd`),
		}
	}
	if end.Seconds < shortSession && !end.Silent || end.Seconds < shortSilence {
		f.Verdict = checks.Fail
	}
	for i := range f.Remedy {
		f.Remedy[i] = f.Remedy[i].Bind(map[string]fix.Arg{"user": fix.Operand(node.SSH.User)})
	}
	return []checks.Finding{f}
}

// noisy returns the findings for text that a login printed before the output of its command.
// DeepSpeed (launcher/runner.py, 0.4.0 and later) uses the first word of the output as master_addr,
// whatever program printed it.
func noisy(v checks.View, node *facts.Node) []checks.Finding {
	if len(node.SSH.Noise) == 0 {
		return nil
	}
	finding := checks.Finding{
		Verdict: checks.Warn,
		Nodes:   []string{node.Name},
		Summary: loginPrints(node.SSH.Noise),
		Got:     strings.Join(node.SSH.Noise, "\n"),
		Want:    "no output when the shell is not interactive",
		Remedy: []fix.Command{
			fix.On(`grep -n "echo\|printf\|cat \|neofetch\|module\|conda" ~/.bashrc ~/.profile ~/.bash_profile /etc/profile.d/*.sh`).As(fix.Look),
			fix.On(`cp ~/.bashrc ~/.bashrc.before && sed -i "1i case \$- in *i*) ;; *) return ;; esac" ~/.bashrc`),
		},
		WouldSee: "the login text of each node between the lines of the training log",
	}
	words := strings.Fields(strings.Join(node.SSH.Noise, " "))
	if v.Launch.MasterAddr != "" || len(words) == 0 || node.Name != names.FirstHost(v) {
		return []checks.Finding{finding}
	}
	finding.Verdict = checks.Fail
	finding.Summary = fmt.Sprintf("DeepSpeed will use %q, which the login prints, as the master address", words[0])
	finding.WouldSee = names.Unresolved(words[0], v.Launch.MasterPort)
	if node.Address != "" {
		finding.Remedy = append(finding.Remedy, fix.Here("deepspeed --master_addr=%s …   # without changing the node", fix.Host(node.Address)).As(fix.Or))
	}
	return []checks.Finding{finding}
}

// loginPrints returns a summary that quotes the first line of the text that a login printed.
func loginPrints(noise []string) string {
	const most = 40
	line := []rune(strings.TrimSpace(strings.Split(strings.TrimSpace(strings.Join(noise, "\n")), "\n")[0]))
	if len(line) > most {
		line = append(line[:most-1], '…')
	}
	return fmt.Sprintf("the login prints %q, although no terminal is attached", string(line))
}

// offeredFile matches the file name in package remote's description of a key. Keys that only an
// agent holds have no file.
var offeredFile = regexp.MustCompile(`\((/[^()]*)\)`)

// installKey returns the commands that install the public key on a node. They use ssh-copy-id if
// the server accepts passwords. Otherwise a person types them on the node's console.
func installKey(ssh *facts.SSH) (commands []fix.Command) {
	copyID := failures().Commands["copy-id"]
	show := fix.Here("ssh-add -L   # the public keys of the agent")
	if ssh.Cause == "no-key" {
		commands = []fix.Command{fix.Here("ssh-keygen -t ed25519 -N '' -f ~/.ssh/id_ed25519")}
		show, copyID = fix.Here("cat ~/.ssh/id_ed25519.pub"), copyID.As(fix.Then)
	}
	if file := offeredFile.FindStringSubmatch(ssh.Detail["offered"]); file != nil {
		show = fix.Here("cat %s", fix.Path(strings.TrimSuffix(file[1], ".pub")+".pub"))
	}
	methods := strings.Split(ssh.Detail["methods"], ",")
	if ssh.Detail["methods"] == "" || slices.Contains(methods, "password") || slices.Contains(methods, "keyboard-interactive") {
		return append(commands, copyID)
	}
	return append(commands, show.As(fix.Look), fix.Console(
		"mkdir -p -m 700 ~{user}/.ssh && echo '<the line shown>' >> ~{user}/.ssh/authorized_keys && chown -R {user}: ~{user}/.ssh   # on {node}'s console: the server accepts no password").As(fix.Or))
}
