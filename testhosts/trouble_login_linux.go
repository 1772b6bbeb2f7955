package testhosts

import (
	"errors"
	"strings"
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
	var undos []Undo
	undo := func() error {
		var failures []error
		for _, u := range undos {
			failures = append(failures, u())
		}
		return errors.Join(failures...)
	}
	for _, peer := range n.Peers() {
		u, err := peer.edit(knownHostsPath, func(text string) string { return strings.Replace(text, line, "", 1) })
		if err != nil {
			return nil, errors.Join(err, undo())
		}
		undos = append(undos, u)
	}
	return undo, nil
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
