// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command faultfs shows a directory at another place, as a network file system with a defect would.
// It needs root and /dev/fuse, prints a line when the directory is mounted, and unmounts it when it
// gets SIGTERM.
//
//	faultfs -late 1s DIRECTORY MOUNTPOINT
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// defects holds the defects of the file system.
type defects struct {
	late  time.Duration // new files of others are hidden for this long
	owner int           // the user ID that seems to own all files, -1 for the real one
	locks string
	write string // the name of the error for what lies beyond room in a file
}

// room is how many bytes of each file can be written before a write fails.
const room = 128 << 10

// These are the values of defects.locks.
const (
	locksShared = "shared" // locks hold on all nodes
	locksOwn    = "own"    // locks hold on this node only
	locksNone   = "none"   // no locks are available
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("faultfs: ")
	var d defects
	flag.DurationVar(&d.late, "late", 0, "hide new files of others for this long")
	flag.IntVar(&d.owner, "owner", -1, "user ID that owns all files")
	flag.StringVar(&d.locks, "locks", locksShared, "shared, own or none")
	flag.StringVar(&d.write, "write", "", "error for the bytes of a file beyond 128 KiB, such as EDQUOT")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("needs a directory and a mount point")
	}
	if err := d.serve(flag.Arg(0), flag.Arg(1)); err != nil {
		log.Fatal(err)
	}
}

func (d defects) serve(dir, at string) error {
	root := &fs.LoopbackRoot{Path: dir}
	top := d.node(root, &sync.Map{})
	root.RootNode = top
	server, err := fs.Mount(at, top, &fs.Options{MountOptions: fuse.MountOptions{
		Name: "faultfs", FsName: "faultfs", AllowOther: true, DirectMountStrict: true, EnableLocks: d.locks != locksOwn,
	}})
	if err != nil {
		return err
	}
	fmt.Println("mounted")
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-ended
		_ = unix.Unmount(at, unix.MNT_DETACH) // the server ends when nothing is mounted any more
	}()
	server.Wait()
	return nil
}

// node is a file or a directory. made holds the paths of the files that were created here.
type node struct {
	fs.LoopbackNode
	defects
	made *sync.Map
}

// lockless is a node on a file system without locks.
type lockless struct{ *node }

func (d defects) node(of *fs.LoopbackRoot, made *sync.Map) fs.InodeEmbedder {
	n := &node{LoopbackNode: fs.LoopbackNode{RootData: of}, defects: d, made: made}
	if d.locks == locksNone {
		return &lockless{n}
	}
	return n
}

// WrapChild gives the files and directories below this one the same defects.
func (n *node) WrapChild(context.Context, fs.InodeEmbedder) fs.InodeEmbedder {
	return n.defects.node(n.RootData, n.made)
}

func (n *node) path() string {
	return filepath.Join(n.RootData.Path, n.Path(n.RootData.RootNode.EmbeddedInode()))
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	path := filepath.Join(n.path(), name)
	if _, own := n.made.Load(path); !own && n.late > 0 {
		if info, err := os.Lstat(path); err == nil && !info.IsDir() && time.Since(info.ModTime()) < n.late {
			return nil, syscall.ENOENT
		}
	}
	child, errno := n.LoopbackNode.Lookup(ctx, name, out)
	n.own(&out.Attr)
	return child, errno
}

func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	n.made.Store(filepath.Join(n.path(), name), true)
	child, handle, how, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	n.own(&out.Attr)
	return child, opened(handle), how, errno
}

func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	handle, how, errno := n.LoopbackNode.Open(ctx, flags)
	return opened(handle), how, errno
}

// file is an open file whose data the kernel must not write past this program.
type file struct{ *fs.LoopbackFile }

func (file) PassthroughFd() (int, bool) { return 0, false }

func opened(handle fs.FileHandle) fs.FileHandle {
	if loopback, is := handle.(*fs.LoopbackFile); is {
		return file{loopback}
	}
	return handle
}

func (n *node) Getattr(ctx context.Context, file fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	errno := n.LoopbackNode.Getattr(ctx, file, out)
	n.own(&out.Attr)
	return errno
}

func (n *node) own(of *fuse.Attr) {
	if n.owner >= 0 {
		of.Owner = fuse.Owner{Uid: uint32(n.owner), Gid: uint32(n.owner)}
	}
}

func (n *node) Write(ctx context.Context, file fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if n.write != "" && off+int64(len(data)) > room {
		return 0, map[string]syscall.Errno{"EDQUOT": syscall.EDQUOT, "ENOSPC": syscall.ENOSPC}[n.write]
	}
	return file.(fs.FileWriter).Write(ctx, data, off)
}

func (*lockless) Getlk(context.Context, fs.FileHandle, uint64, *fuse.FileLock, uint32, *fuse.FileLock) syscall.Errno {
	return syscall.ENOLCK
}

func (*lockless) Setlk(context.Context, fs.FileHandle, uint64, *fuse.FileLock, uint32) syscall.Errno {
	return syscall.ENOLCK
}

func (*lockless) Setlkw(context.Context, fs.FileHandle, uint64, *fuse.FileLock, uint32) syscall.Errno {
	return syscall.ENOLCK
}
