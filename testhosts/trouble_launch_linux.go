package testhosts

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// JobDirectory is where every machine has a script of its own, train.py, that
// meets the other ranks by gloo and adds up their numbers.
const JobDirectory = "/root/job"

//go:embed train.py
var trainScript []byte

// Put writes a file on the head and on every node. It must lie below a directory
// that each has for itself: /root, /tmp, /var/tmp, /run, /dev/shm.
func (c *Cluster) Put(path string, text []byte, mode fs.FileMode) error {
	if !slices.ContainsFunc(ownDirectories, func(own struct{ path, options string }) bool {
		return strings.HasPrefix(filepath.Clean(path), own.path+"/")
	}) {
		return fmt.Errorf("put %s: that is this machine's own, not the nodes'", path)
	}
	for _, n := range c.Machines() {
		if err := n.WriteFile(path, text, mode); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	return nil
}

// Hide takes a file or a directory away from the node, be it one that all
// machines share.
func (n *Node) Hide(path string) (Undo, error) {
	if !n.has(path) {
		return nil, fmt.Errorf("%s: there is no %s to hide", n.Name, path)
	}
	return n.layer(filepath.Dir(path), func(upper string) error { return whiteout(upper, filepath.Base(path)) })
}

// whiteout has an overlay show nothing of that name.
func whiteout(upper, name string) error {
	return unix.Mknod(filepath.Join(upper, name), unix.S_IFCHR, 0)
}

func (n *Node) has(path string) bool {
	return n.inside(func() error {
		_, err := os.Lstat(path)
		return err
	}) == nil
}

// ChangeFile rewrites a file for the node alone, be it one that all share.
func (n *Node) ChangeFile(path string, change func(text string) string) (Undo, error) {
	return n.layer(filepath.Dir(path), func(upper string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(upper, filepath.Base(path)), []byte(change(string(text))), info.Mode())
	})
}

// ForeignPDSH gives the directory of pdsh's modules to nobody: pdsh loads
// nothing from there then. It matters on the head alone.
func (n *Node) ForeignPDSH() (Undo, error) {
	for _, pattern := range []string{"/usr/lib/*/pdsh", "/usr/lib/pdsh", "/usr/lib64/pdsh"} {
		if dirs, _ := filepath.Glob(pattern); len(dirs) > 0 { // /usr is the machine's
			const nobody = 65534
			return n.layer(dirs[0], func(upper string) error { return os.Chown(upper, nobody, nobody) })
		}
	}
	return nil, errors.New("pdsh has no modules: run testhosts/apt.sh")
}

// DeepSpeedEnv writes ~/.deepspeed_env, which DeepSpeed reads on the head alone.
func (n *Node) DeepSpeedEnv(text string) (Undo, error) {
	return n.edit("/root/.deepspeed_env", func(string) string { return text })
}
