// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// layer changes a directory for this node only, even if other machines share it. change writes the
// new files into an empty directory, which becomes the upper directory of an overlay. Mounts below
// the directory stay in place. Undo the layers of one directory in reverse order. Undo loses the
// files that were written into a layer.
func (n *Node) layer(dir string, change func(upper string) error) (Undo, error) {
	var scratch string
	err := n.inside(func() (err error) {
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return err
		}
		if scratch, err = os.MkdirTemp("/run", "layer"); err != nil {
			return err
		}
		if err = lay(scratch, dir, change); err != nil {
			return errors.Join(err, os.RemoveAll(scratch))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: change %s: %w", n.Name, dir, err)
	}
	return func() error {
		return n.inside(func() error { return errors.Join(unix.Unmount(dir, unix.MNT_DETACH), os.RemoveAll(scratch)) })
	}, nil
}

// lay mounts the overlay for layer. It must run in the node's namespaces.
func lay(scratch, dir string, change func(upper string) error) error {
	upper, work := filepath.Join(scratch, "upper"), filepath.Join(scratch, "work")
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
	if strings.ContainsAny(dir, `:,\`) {
		return errors.New("an overlay needs a path without colon, comma and backslash")
	}
	if err := errors.Join(likeDirectory(upper, dir), os.Mkdir(work, 0o700), change(upper)); err != nil {
		return err
	}
	below, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	kept := make([]int, len(below))
	for i, path := range below {
		if kept[i], err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE|unix.OPEN_TREE_CLOEXEC); err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
		defer unix.Close(kept[i])
	}
	if err := unix.Mount("layer", dir, "overlay", 0, options); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	for i, path := range below {
		if err := unix.MoveMount(kept[i], "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return errors.Join(fmt.Errorf("keep %s: %w", path, err), unix.Unmount(dir, unix.MNT_DETACH))
		}
	}
	return nil
}

// likeDirectory creates a directory with the owner and mode of another one, because an overlay has
// the owner and mode of its upper directory.
func likeDirectory(path, model string) error {
	info, err := os.Stat(model)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return unix.ENOTDIR
	}
	owner := info.Sys().(*syscall.Stat_t)
	return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, int(owner.Uid), int(owner.Gid)), os.Chmod(path, info.Mode()))
}

// mountsBelow returns the mount points below a directory, except mount points that are below
// another one of them.
func mountsBelow(dir string) ([]string, error) {
	// Read the mount table of the node's first process, because this process is not in the node's
	// process table.
	table, err := os.ReadFile("/proc/1/mountinfo")
	if err != nil {
		return nil, err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var below []string
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			below = append(below, unescape.Replace(fields[4]))
		}
	}
	slices.Sort(below)
	below = slices.Compact(below) // one path may have two mounts
	return slices.DeleteFunc(slices.Clone(below), func(path string) bool {
		return slices.ContainsFunc(below, func(above string) bool { return strings.HasPrefix(path, above+"/") })
	}), nil
}
