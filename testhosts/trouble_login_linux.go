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

// RemoveAuthorizedKey forgets the key everybody logs in with.
func (n *Node) RemoveAuthorizedKey() (Undo, error) {
	return n.edit("/root/.ssh/authorized_keys", func(string) string { return "" })
}

// AdmitHeadOnly takes the key from the head and from nobody else: launches by
// pdsh work, logins between nodes do not.
func (n *Node) AdmitHeadOnly() (Undo, error) {
	return n.edit("/root/.ssh/authorized_keys", func(text string) string {
		return `from="` + n.cluster.Head.Address + `" ` + text
	})
}

// RemovePrivateKey leaves the node nothing to log in to others with.
func (n *Node) RemovePrivateKey() (Undo, error) {
	return n.edit("/root/.ssh/id_ed25519", func(string) string { return "" })
}

// UnknownToPeers has the other nodes, and not the head, forget the host key of
// this one.
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

// NoLoginShell gives root the shell of service accounts.
func (n *Node) NoLoginShell() (Undo, error) {
	return n.edit("/etc/passwd", func(text string) string {
		return rootShell.ReplaceAllString(text, "${1}/usr/sbin/nologin")
	})
}

// LockAccount locks root's password, which closes the account to keys as well.
func (n *Node) LockAccount() (Undo, error) {
	return n.edit("/etc/shadow", func(text string) string {
		return strings.Replace(text, "root:*:", "root:!:", 1)
	})
}

// StopSSHD ends the server and leaves all else that runs on the node.
func (n *Node) StopSSHD() (Undo, error) {
	_, err := n.shell(`pid=$(cat ` + sshdPid + `); kill "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done; rm -f ` + sshdPid)
	return n.startSSHD, err
}

// knownHostsPath is where every machine has the host keys of all.
const knownHostsPath = "/root/.ssh/known_hosts"

func (n *Node) knownLine(public ssh.PublicKey) string {
	return knownLine([]string{n.Name, n.Address}, public)
}

// raisedLine is the node's line as the cluster was raised with it.
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

// knowAgain has every machine know peer by the key it was raised with. Who
// still has that line is left alone, whatever else is in the file.
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
	}) // a file that cannot be read knows nobody
	return strings.Contains("\n"+string(text), "\n"+line)
}

// relearn replaces what the node knows of peer by that line. The old lines are
// ssh-keygen's to find, because they may be hashed.
func (n *Node) relearn(ctx context.Context, peer *Node, line string) error {
	_, err := n.Run(ctx, "/bin/sh", "-c", `set -e
[ ! -e "$1" ] || { ssh-keygen -f "$1" -R "$2"; ssh-keygen -f "$1" -R "$3"; rm -f "$1.old"; }
printf %s "$4" >>"$1"`, "sh", knownHostsPath, peer.Name, peer.Address, line)
	return err
}
