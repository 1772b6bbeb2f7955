// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// RemoveAuthorizedKey removes the key with which all machines log in.
func (n *Node) RemoveAuthorizedKey() (Undo, error) {
	return n.edit("/root/.ssh/authorized_keys", func(string) string { return "" })
}

// AdmitHeadOnly makes the node accept the key only from the launching machine. Launches with pdsh
// work, but logins between nodes do not.
func (n *Node) AdmitHeadOnly() (Undo, error) {
	return n.edit("/root/.ssh/authorized_keys", func(text string) string {
		return `from="` + n.cluster.Head.Address + `" ` + text
	})
}

// RemovePrivateKey removes the node's private key, so it cannot log in to other nodes.
func (n *Node) RemovePrivateKey() (Undo, error) {
	return n.edit("/root/.ssh/id_ed25519", func(string) string { return "" })
}

// UnknownToPeers removes the node's host key from known_hosts of the other nodes, but not of the
// launching machine.
func (n *Node) UnknownToPeers() (Undo, error) {
	line, err := n.raisedLine()
	if err != nil {
		return nil, err
	}
	var all undos
	for _, peer := range n.Peers() {
		u, err := peer.edit(knownHostsPath, func(text string) string { return strings.Replace(text, line, "", 1) })
		if err != nil {
			return nil, errors.Join(err, all.undo())
		}
		all = append(all, u)
	}
	return all.undo, nil
}

// NoLoginShell gives root the shell nologin, which service accounts have.
func (n *Node) NoLoginShell() (Undo, error) {
	return n.edit("/etc/passwd", func(text string) string {
		return rootShell.ReplaceAllString(text, "${1}/usr/sbin/nologin")
	})
}

// LockAccount locks root's password. This also rejects logins with a key.
func (n *Node) LockAccount() (Undo, error) {
	return n.edit("/etc/shadow", func(text string) string {
		return strings.Replace(text, "root:*:", "root:!:", 1)
	})
}

// StopSSHD ends sshd. All other processes of the node continue.
func (n *Node) StopSSHD() (Undo, error) {
	_, err := n.shell(`pid=$(cat ` + sshdPid + `); kill "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done; rm -f ` + sshdPid)
	return n.startSSHD, err
}

// knownHostsPath is the file in which every machine has the host keys of all machines.
const knownHostsPath = "/root/.ssh/known_hosts"

func (n *Node) knownLine(public ssh.PublicKey) string {
	return knownLine([]string{n.Name, n.Address}, public)
}

// raisedLine returns the node's original line in known_hosts.
func (n *Node) raisedLine() (string, error) {
	text, err := os.ReadFile(filepath.Join(n.cluster.dir, n.Name, "etc/ssh/ssh_host_ed25519_key.pub"))
	if err != nil {
		return "", err
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return "", err
	}
	return n.knownLine(public), nil
}

// knowAgain restores peer's original host key in known_hosts of every machine. It does not change a
// file that still has this key.
func (c *Cluster) knowAgain(ctx context.Context, peer *Node) error {
	line, err := peer.raisedLine()
	if err != nil {
		return fmt.Errorf("the host key of %s: %w", peer.Name, err)
	}
	var failures []error
	for _, n := range c.Machines() {
		if !n.hasKnown(line) {
			failures = append(failures, n.relearn(ctx, peer, line))
		}
	}
	return errors.Join(failures...)
}

func (n *Node) hasKnown(line string) bool {
	var text []byte
	n.inside(func() (err error) {
		text, err = os.ReadFile(knownHostsPath)
		return err
	}) // an unreadable file contains no key
	return strings.Contains("\n"+string(text), "\n"+line)
}

// relearn replaces the node's known_hosts lines for peer with the given line. It finds the old
// lines with ssh-keygen, because the host names in them may be hashed.
func (n *Node) relearn(ctx context.Context, peer *Node, line string) error {
	_, err := n.Run(ctx, "/bin/sh", "-c", `set -e
[ ! -e "$1" ] || { ssh-keygen -f "$1" -R "$2"; ssh-keygen -f "$1" -R "$3"; rm -f "$1.old"; }
printf %s "$4" >>"$1"`, "sh", knownHostsPath, peer.Name, peer.Address, line)
	return err
}
