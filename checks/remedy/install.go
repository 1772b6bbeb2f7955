package remedy

import (
	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// SystemOf is what a machine says it runs, "" where nobody saw.
func SystemOf(machine *facts.Node) string {
	if machine.Host == nil {
		return ""
	}
	return machine.Host.OS
}

// WordOr is a word for the remark behind a command, which a line break would end.
func WordOr(word, otherwise string) string {
	if fix.IsPlain(word) {
		return word
	}
	return otherwise
}

// Fixes that several causes share.
var (
	AskForKey = fix.Here("ssh {node} true   # asks, and writes the right entry where ~/.ssh/config gives HostName or ProxyJump")
	DeniedBy  = "{node}: Permission denied ({methods})."
	TryBySSH  = fix.Here("ssh -v -o BatchMode=yes {node} true")
	CopyID    = fix.EachHost("ssh-copy-id -p {port} {user}@$host")
	ShowKeys  = fix.Here("ssh-keyscan -p {port} {hosts} | ssh-keygen -lf -   # compare with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on each console")
	TrustKeys = fix.Here("ssh-keyscan -H -p {port} {hosts} >> {file}   # only when the fingerprints agree")
	LastWords = fix.Console("sudo journalctl -k -n 50 --no-pager   # on {node}'s console: out of memory, hung disks, a dying network card")
	LastLogin = fix.Console("sudo journalctl -t sshd -t sshd-session -n 50 --no-pager   # on {node}'s console: sshd says there why")
)

// Program is what the ranks are started by.
func Program(view checks.View) string {
	if view.Launch.Rendezvous == launch.RendezvousC10d || view.Launch.Rendezvous == launch.RendezvousStatic {
		return launch.ProgramTorchrun
	}
	return launch.ProgramDeepSpeed
}
