// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ShrinkSHM limits the size of /dev/shm, in bytes. The default of container runtimes is 64 MiB.
func (n *Node) ShrinkSHM(bytes int64) (Undo, error) {
	return n.remount("/dev/shm", 0, fmt.Sprintf("size=%d", bytes), "size=50%")
}

// ReadOnlySHM mounts /dev/shm read-only.
func (n *Node) ReadOnlySHM() (Undo, error) {
	return n.remount("/dev/shm", unix.MS_RDONLY, "", "")
}

// ReadOnlyHome mounts root's home read-only.
func (n *Node) ReadOnlyHome() (Undo, error) { return n.remount("/root", unix.MS_RDONLY, "", "") }

// NoExecHome mounts root's home noexec.
func (n *Node) NoExecHome() (Undo, error) { return n.remount("/root", unix.MS_NOEXEC, "", "") }

// FullHome fills root's home until no byte is free.
func (n *Node) FullHome() (Undo, error) {
	var home unix.Statfs_t
	if err := n.inside(func() error { return unix.Statfs("/root", &home) }); err != nil {
		return nil, err
	}
	used := (home.Blocks - home.Bfree) * uint64(home.Bsize)
	return n.remount("/root", 0, fmt.Sprintf("size=%d", used), "size=50%")
}

// remount changes one of the node's own tmpfs mounts.
func (n *Node) remount(path string, flags uintptr, options, before string) (Undo, error) {
	set := func(flags uintptr, options string) error {
		err := n.inside(func() error {
			return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|flags, options)
		})
		if err != nil {
			return fmt.Errorf("%s: remount %s %s: %w", n.Name, path, options, err)
		}
		return nil
	}
	return func() error { return set(0, before) }, set(flags, options)
}

// edit rewrites a file of the node. A missing file counts as empty, and a file that becomes empty
// is removed.
func (n *Node) edit(path string, change func(text string) string) (Undo, error) {
	var before []byte
	replace := func(text string) error {
		if text == "" {
			return os.Remove(path)
		}
		return os.WriteFile(path, []byte(text), 0o600) // the mode applies only to a new file
	}
	err := n.inside(func() (err error) {
		if before, err = os.ReadFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return replace(change(string(before)))
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Name, err)
	}
	return func() error { return n.inside(func() error { return replace(string(before)) }) }, nil
}

// NoisyShell makes ~/.bashrc print a line. bash also reads this file for commands over ssh.
func (n *Node) NoisyShell(line string) (Undo, error) {
	return n.edit("/root/.bashrc", func(text string) string {
		return text + "echo '" + strings.ReplaceAll(line, "'", `'\''`) + "'\n"
	})
}

// LoopbackHostname makes the node resolve its own name to 127.0.1.1, as Debian's installer does.
func (n *Node) LoopbackHostname() (Undo, error) { return n.WrongHosts(n.Name, "127.0.1.1") }

// WrongHosts makes the node resolve a name to a different address than all other nodes.
func (n *Node) WrongHosts(name, address string) (Undo, error) {
	entry := regexp.MustCompile(`(?m)^\S+(\s+)` + regexp.QuoteMeta(name) + `$`)
	return n.edit("/etc/hosts", func(text string) string {
		return entry.ReplaceAllString(text, address+"${1}"+name)
	})
}

// ForgetName makes the node unable to resolve a name.
func (n *Node) ForgetName(name string) (Undo, error) {
	entry := regexp.MustCompile(`(?m)^\S+\s+` + regexp.QuoteMeta(name) + `\n`)
	return n.edit("/etc/hosts", func(text string) string { return entry.ReplaceAllString(text, "") })
}

// Configure writes a configuration file, for example NCCL's /etc/nccl.conf, or
// /root/.deepspeed_env, which DeepSpeed reads on the launching machine only.
func (n *Node) Configure(path, text string) (Undo, error) {
	return n.edit(path, func(string) string { return text })
}

// LeftoverSegment creates a file in /dev/shm with the given size and age, like the files that a
// killed NCCL process leaves behind.
func (n *Node) LeftoverSegment(name string, bytes int64, age time.Duration) (Undo, error) {
	path := filepath.Join("/dev/shm", name)
	err := n.inside(func() error {
		if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
			return err
		}
		then := time.Now().Add(-age)
		return os.Chtimes(path, then, then)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Name, err)
	}
	return func() error { return n.inside(func() error { return os.Remove(path) }) }, nil
}

// OtherPackage installs the metadata of a Python package into root's user site of /usr/bin/python3.
// The user site precedes the system's packages. If the package itself is missing, OtherPackage adds
// an empty module. This is enough for programs that only ask for the version.
func (n *Node) OtherPackage(name, version string) (Undo, error) {
	site, err := n.userSite()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(site, name+"-"+version+".dist-info")
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)
	if err := n.WriteFile(filepath.Join(dir, "METADATA"), []byte(metadata), 0o644); err != nil {
		return nil, err
	}
	planted := []string{dir}
	if module := filepath.Join(site, name, "__init__.py"); !n.has(module) {
		if err := n.WriteFile(module, nil, 0o644); err != nil {
			return nil, err
		}
		planted = append(planted, module)
	}
	return func() error {
		return n.inside(func() (err error) {
			for _, path := range planted {
				err = errors.Join(err, os.RemoveAll(path))
			}
			return err
		})
	}, nil
}

// CUDATorch does the same as OtherPackage for a torch that was built for the given CUDA release.
func (n *Node) CUDATorch(version, cuda string) (Undo, error) {
	return n.builtTorch(version, fmt.Sprintf("%q", cuda))
}

// CPUTorch does the same as OtherPackage for a torch that was built without CUDA.
func (n *Node) CPUTorch(version string) (Undo, error) { return n.builtTorch(version, "None") }

func (n *Node) builtTorch(version, cuda string) (Undo, error) {
	site, err := n.userSite()
	if err != nil {
		return nil, err
	}
	uninstall, err := n.OtherPackage("torch", version)
	if err != nil {
		return nil, err
	}
	all := undos{uninstall}
	for name, text := range map[string]string{
		"torch/version.py": fmt.Sprintf("__version__ = %q\ncuda = %s\n", version, cuda),
		// Torch imports these modules (launch.Requirements). The machine may lack them.
		"typing_extensions.py": "# imported by torch\n",
		"sympy.py":             "# imported by torch\n",
		"mpmath.py":            "# imported by torch\n",
	} {
		remove, err := n.edit(filepath.Join(site, name), func(string) string { return text })
		if err != nil {
			return nil, errors.Join(err, all.undo())
		}
		all = append(all, remove)
	}
	return all.undo, nil
}

// userSite returns the directory of root's own packages for /usr/bin/python3.
func (n *Node) userSite() (string, error) {
	out, err := n.Command(context.Background(), "/usr/bin/python3", "-m", "site", "--user-site").Output()
	site := strings.TrimSpace(string(out))
	if !filepath.IsAbs(site) {
		// `site --user-site` exits with 1 if the directory does not exist yet, so only its output
		// counts.
		return "", fmt.Errorf("%s: python3 names no user site: %w", n.Name, err)
	}
	return site, nil
}

// JobDirectory is a directory of which every machine has its own. Its script train.py joins the
// other ranks over gloo and adds up the numbers of all ranks.
const JobDirectory = "/root/job"

//go:embed train.py
var trainScript []byte

// Put writes a file on the launching machine and on every node. The path must be below a directory
// of which each machine has its own: /root, /tmp, /var/tmp, /run or /dev/shm.
func (c *Cluster) Put(path string, text []byte, mode fs.FileMode) error {
	if !slices.ContainsFunc(ownDirectories, func(own struct{ path, options string }) bool {
		return strings.HasPrefix(filepath.Clean(path), own.path+"/")
	}) {
		return fmt.Errorf("put %s: the nodes share this directory with the machine", path)
	}
	for _, n := range c.Machines() {
		if err := n.WriteFile(path, text, mode); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	return nil
}

// Hide hides a file or a directory from the node, even if all machines share it.
func (n *Node) Hide(path string) (Undo, error) {
	if !n.has(path) {
		return nil, fmt.Errorf("%s: %s does not exist", n.Name, path)
	}
	return n.layer(filepath.Dir(path), func(upper string) error { return whiteout(upper, filepath.Base(path)) })
}

// whiteout makes an overlay hide the file with the given name.
func whiteout(upper, name string) error {
	return unix.Mknod(filepath.Join(upper, name), unix.S_IFCHR, 0)
}

func (n *Node) has(path string) bool {
	return n.inside(func() error {
		_, err := os.Lstat(path)
		return err
	}) == nil
}

// ChangeFile rewrites a file for this node only, even if all machines share it.
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

// ForeignPDSH changes the owner of pdsh's module directory to nobody, so pdsh loads no modules from
// it. This matters on the launching machine only.
func (n *Node) ForeignPDSH() (Undo, error) {
	for _, pattern := range []string{"/usr/lib/*/pdsh", "/usr/lib/pdsh", "/usr/lib64/pdsh"} {
		if dirs, _ := filepath.Glob(pattern); len(dirs) > 0 { // change only this node's view, because /usr belongs to the machine
			const nobody = 65534
			return n.layer(dirs[0], func(upper string) error { return os.Chown(upper, nobody, nobody) })
		}
	}
	return nil, errors.New("pdsh has no modules: run testhosts/apt.sh")
}
