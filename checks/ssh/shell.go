package ssh

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/remedy"
	"preflight/facts"
)

var Shell = onLadder(checks.Check{
	ID:    "ssh-shell",
	Title: "every node's non-interactive shell is POSIX-like and prints nothing",
	Doc: "Runs one command through the login shell, as the launcher will. Whatever start-up files print on stdout lands in front of every remote " +
		"command's output. Without --master_addr DeepSpeed takes the first word that `hostname -I` prints on the first node for the master address, " +
		"so noise there breaks the launch (fail); elsewhere it only muddles logs (warn).",
	WouldSee: "{node}: ssh exited with exit code 255",
}, noisy)

// noisy judges what a login printed before the command it was asked to run.
// The rule is DeepSpeed's (launcher/runner.py, 0.4.0 and later): master_addr is
// the first word of the output, whatever printed it.
func noisy(v checks.View, node *facts.Node) []checks.Finding {
	if len(node.SSH.Noise) == 0 {
		return nil
	}
	finding := checks.Finding{
		Verdict: checks.Warn,
		Nodes:   []string{node.Name},
		Summary: "the login prints on stdout although no terminal is attached",
		Got:     strings.Join(node.SSH.Noise, "\n"),
		Want:    "silence: put what start-up files print behind a test for an interactive shell",
		Remedy: []fix.Command{
			fix.On(`grep -n "echo\|printf\|cat \|neofetch\|module\|conda" ~/.bashrc ~/.profile ~/.bash_profile /etc/profile.d/*.sh`),
			fix.On(`cp ~/.bashrc ~/.bashrc.before && sed -i "1i case \$- in *i*) ;; *) return ;; esac" ~/.bashrc`),
		},
		WouldSee: "the noise, once a node, between the lines of the training log",
	}
	words := strings.Fields(strings.Join(node.SSH.Noise, " "))
	if v.Launch.MasterAddr != "" || len(words) == 0 || node.Name != names.FirstHost(v) {
		return []checks.Finding{finding}
	}
	finding.Verdict = checks.Fail
	finding.Summary = fmt.Sprintf("the login prints on stdout, and DeepSpeed will take its first word %q for the master address", words[0])
	finding.WouldSee = names.Unresolved(words[0], v.Launch.MasterPort)
	if node.Address != "" {
		finding.Remedy = append(finding.Remedy, fix.Here("deepspeed --master_addr=%s …", fix.Host(node.Address)))
	}
	return []checks.Finding{finding}
}

// offeredFile is the file of a key as remote describes it; what an agent holds
// has none.
var offeredFile = regexp.MustCompile(`\((/[^()]*)\)`)

// installKey brings our public key to a node: by ssh-copy-id where the server
// lets somebody in by password, and else by hand on the node's console.
func installKey(ssh *facts.SSH) (commands []fix.Command) {
	show := fix.Here("ssh-add -L   # the public keys of the agent")
	if ssh.Cause == "no-key" {
		commands = []fix.Command{fix.Here("ssh-keygen -t ed25519 -N '' -f ~/.ssh/id_ed25519")}
		show = fix.Here("cat ~/.ssh/id_ed25519.pub")
	}
	if file := offeredFile.FindStringSubmatch(ssh.Detail["offered"]); file != nil {
		show = fix.Here("cat %s", fix.Path(strings.TrimSuffix(file[1], ".pub")+".pub"))
	}
	methods := strings.Split(ssh.Detail["methods"], ",")
	if ssh.Detail["methods"] == "" || slices.Contains(methods, "password") || slices.Contains(methods, "keyboard-interactive") {
		return append(commands, remedy.CopyID)
	}
	return append(commands, show, fix.Console(
		"mkdir -p -m 700 ~{user}/.ssh && echo '<the line shown>' >> ~{user}/.ssh/authorized_keys && chown -R {user}: ~{user}/.ssh   # on {node}'s console: it takes no password"))
}
