package checks

import (
	"regexp"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

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
		return append(commands, copyID)
	}
	return append(commands, show, fix.Console(
		"mkdir -p -m 700 ~{user}/.ssh && echo '<the line shown>' >> ~{user}/.ssh/authorized_keys && chown -R {user}: ~{user}/.ssh   # on {node}'s console: it takes no password"))
}
