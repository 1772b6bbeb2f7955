// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"io"
	"os"
	"path"
	"strings"
	"unicode"
)

// Porter is a Connection whose carrier may have a way of its own to put a file on nodes,
// many at once. What it brings is believed no sooner than what is sent.
type Porter interface {
	// Bring puts our binary where the node asks for it. It waits for other nodes that may.
	Bring(Parcel) Bringing
}

// Bringing is what became of a Parcel.
type Bringing int

const (
	NoPorter Bringing = iota // of this connection
	Brought
	AsksAnew // the node: it is started in another way
)

// Parcel is a binary of ours for a node.
type Parcel struct {
	Path string // where it is to lie, a name that no delivery else has; "" where it may not be brought
	open func() (io.Reader, error)
}

// parcel is what a node asks for that has a directory of its own: one that others deliver to
// as well, as their tags tell, is sent one copy (share.go). The path is a stranger's.
func (d *delivery) parcel(b *Binary, tags, dir string) Parcel {
	if tags != "-" || !path.IsAbs(dir) || strings.ContainsFunc(dir, unicode.IsControl) {
		return Parcel{}
	}
	return Parcel{Path: path.Join(dir, "preflight-"+b.Hash+".0"), open: b.unpacked}
}

// File writes the binary to a file that is its caller's to remove.
func (p Parcel) File() (name string, err error) {
	content, err := p.open()
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "preflight-")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Chmod(0o700) // as it is to be on the nodes
	}
	if shut := f.Close(); err == nil {
		err = shut
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}
