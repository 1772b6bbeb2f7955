// SPDX-License-Identifier: Apache-2.0

// Package shared tries whether a directory is the same one on several nodes. Each node writes files
// of its own there, looks for the files of its peers, and tries the locks that the peers hold.
//
// Every file has the token of the run in its name. [Put.Hold] removes all files that it wrote when
// its context ends, which also happens when the connection to the launching machine is cut.
package shared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"preflight/facts"
)

const (
	// noteBytes is the size of the file that the peers read. It is larger than a page, so that a peer
	// may see only a part of it.
	noteBytes = 64 << 10
	// bulkBytes is how much each node writes in addition. A file system may accept small files of a
	// user who is over the quota.
	bulkBytes = 4 << 20
	// callTime limits each step that may hang on a dead mount or a dead lock server.
	callTime = 2 * time.Second
	// A node looks for a missing file after firstLook, and then less and less often, down to once in
	// lastLook.
	firstLook = 20 * time.Millisecond
	lastLook  = 100 * time.Millisecond
)

// Put makes a node write its file into each directory and lock two more files there.
type Put struct {
	Token string   `json:"token"`
	Node  string   `json:"node"` // the node's number in the run
	Peer  string   `json:"peer"` // the number of the node whose files this node removes too, in case that node is lost
	Paths []string `json:"paths"`
}

// Written is what the node wrote, by the position in Paths.
type Written struct {
	Directories []facts.SharedDirectory `json:"directories"`
}

// Hold writes and locks the files, calls ready, and keeps the files until ctx ends. Then it removes
// them. A directory that does not answer in time is reported and left alone.
func (p Put) Hold(ctx context.Context, ready func(Written) error) error {
	seen := Written{Directories: make([]facts.SharedDirectory, len(p.Paths))}
	done := make([]chan []*os.File, len(p.Paths))
	var all sync.WaitGroup
	for i, path := range p.Paths {
		done[i] = make(chan []*os.File, 1) // buffered, so that an abandoned goroutine can end
		answer := make(chan facts.SharedDirectory, 1)
		go func() {
			dir, held := p.put(path)
			answer <- dir
			done[i] <- held
		}()
		all.Go(func() {
			select {
			case seen.Directories[i] = <-answer:
			case <-time.After(callTime):
				seen.Directories[i] = facts.SharedDirectory{Path: path, Problem: fmt.Sprintf("no answer within %s: a hung mount?", callTime)}
			}
		})
	}
	all.Wait()
	err := ready(seen)
	if err == nil {
		<-ctx.Done()
	}
	for i := range done {
		all.Go(func() {
			held := <-done[i] // a late writer also removes its files
			for _, file := range held {
				_ = file.Close() // nothing in the file is needed, and closing it ends the lock
			}
			if at := seen.Directories[i].At; at != "" {
				p.remove(at)
			} else if base, err := existing(p.Paths[i]); err == nil {
				p.remove(base)
			}
		})
	}
	all.Wait()
	return err
}

// put writes and locks this node's files in one directory. It returns the files that stay open.
func (p Put) put(path string) (seen facts.SharedDirectory, held []*os.File) {
	seen.Path = path
	var err error
	if seen.At, err = existing(path); err != nil {
		seen.Problem = reason(err)
		return seen, nil
	}
	began := time.Now()
	name := nameOf(seen.At, p.Token, p.Node, noteName)
	info, step, err := write(name, note(p.Token, p.Node), nil)
	if seen.Seconds = time.Since(began).Seconds(); err != nil {
		seen.Failed, seen.Error, seen.Code = step, reason(err), code(err)
		return seen, nil
	}
	if stat := (unix.Stat_t{}); unix.Stat(info, &stat) == nil && int(stat.Uid) != os.Geteuid() {
		owner := int(stat.Uid)
		seen.Owner = &owner
	}
	seen.Locks = map[string]string{}
	for _, kind := range locks {
		file, err := os.OpenFile(nameOf(seen.At, p.Token, p.Node, kind.name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			continue // the file above has shown whether this node may write
		}
		held = append(held, file)
		if err := kind.try(file); err != nil {
			seen.Locks[kind.name] = reason(err)
		}
	}
	return seen, held
}

// write creates a file with a content that is on the file system's server afterwards. It calls made
// as soon as the file exists; made may be nil. It returns the step that failed.
func write(name string, content []byte, made func(name string) error) (path string, step facts.WriteStep, err error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return name, facts.StepCreate, err
	}
	if made != nil {
		_ = made(name)
	}
	if _, err = file.Write(content); err != nil {
		return name, facts.StepWrite, errors.Join(err, file.Close())
	}
	if err = file.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some file systems cannot sync
		return name, facts.StepSync, errors.Join(err, file.Close())
	}
	return name, facts.StepSync, file.Close() // NFS reports a full server when the file is closed
}

// remove removes this node's files and those of its peer.
func (p Put) remove(at string) {
	for _, node := range []string{p.Node, p.Peer} {
		for _, kind := range []string{noteName, bulkName, locks[0].name, locks[1].name} {
			_ = os.Remove(nameOf(at, p.Token, node, kind)) // a file that is already gone is as good
		}
	}
}

// Look makes a node look for the files of its peers.
type Look struct {
	Token string  `json:"token"`
	Node  string  `json:"node"` // the node's number in the run
	Dirs  []Peers `json:"dirs"`
}

// Peers lists the nodes whose files a node looks for in a directory.
type Peers struct {
	At    string `json:"at"`    // the directory in which this node wrote
	Write bool   `json:"write"` // this node could write there
	Of    []Peer `json:"of"`
}

// Peer is a node with its file in a directory.
type Peer struct {
	Name string `json:"name"`
	Node string `json:"node"` // the node's number in the run
	At   string `json:"at"`   // the directory in which the peer wrote
	// Patience is how long to look for the file. Locked says which locks the peer holds.
	Patience time.Duration `json:"patience"`
	Locked   []string      `json:"locked,omitempty"`
}

// Looked is what a node found in each directory of the request.
type Looked struct {
	Directories []facts.SharedDirectory `json:"directories"`
}

// Run looks for all files at the same time, and meanwhile writes a large file into each directory.
func (l Look) Run(ctx context.Context) Looked {
	found := Looked{Directories: make([]facts.SharedDirectory, len(l.Dirs))}
	var all sync.WaitGroup
	for i, dir := range l.Dirs {
		into := &found.Directories[i]
		into.Peers = make([]facts.SharedPeer, len(dir.Of))
		for at, peer := range dir.Of {
			into.Peers[at].Peer = peer.Name
			all.Go(func() { into.Peers[at] = l.find(ctx, peer) })
		}
		if dir.Write {
			all.Go(func() {
				into.Failed, into.Error, into.Code = within(ctx, peerTime(dir.Of), stuck{facts.StepWrite, "no answer: a hung mount?", ""}, func() stuck {
					name := nameOf(dir.At, l.Token, l.Node, bulkName)
					// The file has no name while it is written, so that it is gone even if this
					// process is killed.
					_, step, err := write(name, make([]byte, bulkBytes), os.Remove)
					if err == nil {
						return stuck{}
					}
					return stuck{step, reason(err), code(err)}
				}).values()
			})
		}
	}
	all.Wait()
	return found
}

// stuck is how a write failed.
type stuck struct {
	step        facts.WriteStep
	error, code string
}

func (s stuck) values() (facts.WriteStep, string, string) { return s.step, s.error, s.code }

// peerTime is how long a large write may take: as long as the look for the slowest peer, and never
// less than callTime.
func peerTime(peers []Peer) time.Duration {
	longest := callTime
	for _, peer := range peers {
		longest = max(longest, peer.Patience)
	}
	return longest
}

// find looks for a peer's file until it is there whole, and then tries the peer's locks. The time
// in the result is the start of the last look that did not find the file. So the file is proven to
// be late for that time, however busy this machine is.
func (l Look) find(ctx context.Context, peer Peer) facts.SharedPeer {
	began, found := time.Now(), facts.SharedPeer{Peer: peer.Name, Missing: "no answer: a hung mount?"}
	name, want := nameOf(peer.At, l.Token, peer.Node, noteName), note(l.Token, peer.Node)
	for pause := firstLook; ; pause = min(pause*3/2, lastLook) {
		looked := time.Since(began)
		found.Missing = within(ctx, callTime, found.Missing, func() string { return compare(name, want) })
		if found.Missing == "" {
			break
		}
		if found.Seconds = looked.Seconds(); looked >= peer.Patience || ctx.Err() != nil {
			return found
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	found.Locks = map[string]string{}
	for _, kind := range locks {
		for _, held := range peer.Locked {
			if held == kind.name {
				found.Locks[held] = within(ctx, callTime, "no answer within 2s", func() string {
					return tryPeers(kind, nameOf(peer.At, l.Token, peer.Node, kind.name))
				})
			}
		}
	}
	return found
}

// compare returns "" if a file has the wanted content, and otherwise what is wrong with it.
func compare(name string, want []byte) string {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return facts.NotThere
	} else if err != nil {
		return reason(err)
	}
	defer file.Close() // opened only for reading, so an error loses nothing
	got, err := io.ReadAll(io.LimitReader(file, int64(len(want))+1))
	switch {
	case err != nil:
		return reason(err)
	case len(got) < len(want):
		return fmt.Sprintf("%d of %d bytes", len(got), len(want))
	case !bytes.Equal(got, want):
		return "another content"
	}
	return ""
}

// tryPeers tries a lock that a peer holds. A shared lock is not free.
func tryPeers(kind lock, name string) string {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return reason(err)
	}
	defer file.Close() // this also ends the lock
	switch err := kind.try(file); {
	case err == nil:
		return facts.LockFree
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return facts.LockHeld
	default:
		return reason(err)
	}
}

// lock is one of the two kinds of locks that programs take. Python's filelock takes the first kind.
type lock struct {
	name string
	try  func(*os.File) error
}

var locks = []lock{
	{facts.LockFlock, func(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }},
	{facts.LockFcntl, func(f *os.File) error {
		return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
	}},
}

const (
	noteName = "note"
	bulkName = "bulk"
)

func nameOf(dir, token, node, kind string) string {
	return filepath.Join(dir, ".preflight-"+token+"-"+node+"-"+kind)
}

// note returns the content of a node's file.
func note(token, node string) []byte {
	line := []byte(token + " " + node + "\n")
	return bytes.Repeat(line, noteBytes/len(line)+1)[:noteBytes]
}

// existing returns the directory itself or its nearest existing parent.
func existing(path string) (string, error) {
	for {
		info, err := os.Stat(path)
		switch {
		case err == nil && info.IsDir():
			return path, nil
		case err == nil:
			return "", unix.ENOTDIR
		case !errors.Is(err, fs.ErrNotExist) || path == "/":
			return "", err
		}
		path = filepath.Dir(path)
	}
}

// within calls work, and returns otherwise if work takes longer than limit.
func within[T any](ctx context.Context, limit time.Duration, otherwise T, work func() T) T {
	done := make(chan T, 1) // buffered, so that abandoned work can end
	go func() { done <- work() }()
	select {
	case value := <-done:
		return value
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return otherwise
}

// code returns the name of the system's error, such as EDQUOT, or "" if err is none.
func code(err error) string {
	if errno, is := errors.AsType[unix.Errno](err); is {
		return unix.ErrnoName(errno)
	}
	return ""
}

// reason returns the system's message without the path.
func reason(err error) string {
	if errno, is := errors.AsType[unix.Errno](err); is {
		return errno.Error()
	}
	return err.Error()
}
