// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/crypto/ssh"
)

//go:embed node.sh
var nodeScript []byte

// sshdConfig is Debian's configuration without PAM and without the limits on the number of clients.
// PAM would apply the limits and login records of the machine.
const sshdConfig = `HostKey /etc/ssh/ssh_host_ed25519_key
PidFile ` + sshdPid + `
PermitRootLogin prohibit-password
KbdInteractiveAuthentication no
UsePAM no
PasswordAuthentication no
UseDNS no
PrintMotd no
X11Forwarding no
MaxStartups 4096
MaxSessions 100
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
`

// sshdPid is a file that sshd writes when it listens. The machine's own sshd does not use it.
const sshdPid = "/run/sshd/testhosts.pid"

// writeState writes the files from which the nodes boot. Each node has its own /etc and mount
// table. All nodes share one home directory and the boot script.
func (c *Cluster) writeState(options Options) error {
	shared, err := hiddenDirectories(options.Share)
	if err != nil {
		return err
	}
	passwd, err := rootWithBash()
	if err != nil {
		return err
	}
	var known, hosts, hostfile bytes.Buffer
	hosts.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	for _, n := range c.Machines() {
		fmt.Fprintf(&hosts, "%s\t%s\n", n.Address, n.Name)
		if n != c.Head {
			fmt.Fprintf(&hostfile, "%s slots=%d\n", n.Name, c.Slots)
		}
	}
	files := map[string][]byte{"node.sh": nodeScript, "home/hostfile": hostfile.Bytes()}
	sshd := []byte(sshdOptions())
	if options.LightLogins {
		sshd = append(sshd, "KexAlgorithms curve25519-sha256\n"...)
	}
	for _, n := range c.Machines() {
		etc := filepath.Join(n.Name, "etc")
		hostKey := filepath.Join(etc, "ssh/ssh_host_ed25519_key")
		public, err := addKey(files, hostKey, n.Name)
		if err != nil {
			return err
		}
		known.WriteString(n.knownLine(public))
		files[filepath.Join(n.Name, "fstab")] = c.fstab(n, shared, options.Preflight != "")
		files[filepath.Join(etc, "hosts")] = hosts.Bytes()
		files[filepath.Join(etc, "hostname")] = []byte(n.Name + "\n")
		files[filepath.Join(etc, "machine-id")] = machineID()
		files[filepath.Join(etc, "passwd")] = passwd
		// sshd refuses accounts with a locked password, as root's often is.
		files[filepath.Join(etc, "shadow")] = []byte("root:*:19000:0:99999:7:::\n")
		files[filepath.Join(etc, "ssh/sshd_config")] = sshd
		files[filepath.Join(etc, "ssh/ssh_config")] = []byte("Host *\n\tSendEnv LANG LC_*\n")
	}
	if c.Slurm {
		c.addSlurm(files)
	}
	if _, err := addKey(files, "home/.ssh/id_ed25519", c.Name); err != nil {
		return err
	}
	files["home/.ssh/authorized_keys"] = files["home/.ssh/id_ed25519.pub"]
	files["home/.ssh/known_hosts"] = known.Bytes()
	files["home/.bashrc"] = []byte("# read by bash for commands that come over ssh, too\n")
	files["home/job/train.py"] = trainScript
	files["home/.profile"] = []byte(". ~/.bashrc\n")
	if options.Preflight != "" {
		bin := filepath.Join(c.dir, "bin")
		if err := os.Mkdir(bin, 0o755); err != nil {
			return err
		}
		if err := os.Symlink(options.Preflight, filepath.Join(bin, "preflight")); err != nil {
			return err
		}
	}
	return writeTree(c.dir, files)
}

// addKey adds the two files of a new key and returns the public key.
func addKey(files map[string][]byte, name, comment string) (ssh.PublicKey, error) {
	k, err := generateKey()
	if err != nil {
		return nil, err
	}
	files[name], files[name+".pub"], err = k.files(comment)
	return k.PublicKey(), err
}

func machineID() []byte {
	id := make([]byte, 16)
	rand.Read(id) // never fails
	return []byte(hex.EncodeToString(id) + "\n")
}

// sshdOptions returns sshdConfig in the syntax of the installed sshd.
func sshdOptions() string {
	// OpenSSH 9.8 and later block a client after several failures, and tests cause such failures.
	const penalties = "PerSourcePenalties no"
	if exec.Command("/usr/sbin/sshd", "-T", "-f", "/dev/null", "-o", penalties).Run() == nil {
		return sshdConfig + penalties + "\n"
	}
	return sshdConfig
}

// writeTree writes files with the modes that ssh requires: readable by the owner only, except for
// files of /etc that every user must read.
func writeTree(root string, files map[string][]byte) error {
	for name, text := range files {
		path := filepath.Join(root, name)
		dirMode, mode := os.FileMode(0o700), os.FileMode(0o600)
		if strings.Contains(name, "/etc/") {
			dirMode = 0o755
			if !strings.HasSuffix(name, "_key") && !strings.HasSuffix(name, "/shadow") {
				mode = 0o644
			}
		}
		if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, mode); err != nil {
			return err
		}
	}
	return nil
}

// ownDirectories lists the directories of which each node has its own, with their mount options.
// Each of these directories is a tmpfs.
var ownDirectories = []struct{ path, options string }{
	{"/dev/shm", "nosuid,nodev,mode=1777"},
	{"/tmp", "nosuid,nodev,mode=1777"},
	{"/var/tmp", "nosuid,nodev,mode=1777"},
	{"/var/log", "nosuid,nodev,mode=755"},
	{"/root", "nosuid,nodev,mode=700"},
	{"/run", "nosuid,nodev,mode=755"}, // must be last, because it hides the sources of the other mounts
}

// fstab returns the node's mount table, in the order of mounting. The names of the sources contain
// the node's name, because mount --all skips a source that seems to be mounted already.
func (c *Cluster) fstab(n *Node, shared []string, hasPreflight bool) []byte {
	var table bytes.Buffer
	rw := filepath.Join(c.dir, n.Name, "rw")
	add := func(source, target, kind, options string) {
		space := strings.NewReplacer(" ", `\040`, "\t", `\011`, `\`, `\134`)
		fmt.Fprintln(&table, space.Replace(source), space.Replace(target), kind, options, "0 0")
	}
	for i, dir := range shared {
		add(dir, fmt.Sprintf("%s/share%d", rw, i), "none", "rbind,x-mount.mkdir")
	}
	add(n.Name+"-proc", "/proc", "proc", "nosuid,nodev,noexec")
	// A sysfs shows the interfaces of the network namespace in which it was mounted.
	add("/sys/fs/cgroup", rw+"/cgroup", "none", "rbind,x-mount.mkdir")
	add(n.Name+"-sys", "/sys", "sysfs", "nosuid,nodev,noexec")
	add(rw+"/cgroup", "/sys/fs/cgroup", "none", "rbind")
	add(n.Name+"-etc", "/etc", "overlay", fmt.Sprintf("lowerdir=/etc,upperdir=%s/etc,workdir=%s/work", rw, rw))
	if hasPreflight {
		add(n.Name+"-bin", "/usr/local/bin", "overlay", "lowerdir="+filepath.Join(c.dir, "bin")+":/usr/local/bin")
	}
	for _, own := range ownDirectories {
		if own.path == "/run" {
			for i, dir := range shared {
				add(fmt.Sprintf("%s/share%d", rw, i), dir, "none", "rbind,x-mount.mkdir")
			}
		}
		add(n.Name+strings.ReplaceAll(own.path, "/", "-"), own.path, "tmpfs", own.options)
	}
	return table.Bytes()
}

// hiddenDirectories returns the shared directories that a node's own directories would hide. The
// node sees all other directories without a mount.
func hiddenDirectories(share []string) ([]string, error) {
	if share == nil {
		here, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		share = []string{here}
	}
	var hidden []string
	for _, dir := range share {
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("cannot share %s: no such directory", dir)
		}
		for _, own := range ownDirectories {
			if strings.HasPrefix(path, own.path+"/") && own.path != "/run" {
				hidden = append(hidden, path)
			}
		}
	}
	return hidden, nil
}

var rootShell = regexp.MustCompile(`(?m)^(root:.*:)[^:]*$`)

// rootWithBash returns this machine's /etc/passwd with bash as root's shell, because cluster nodes
// have bash.
func rootWithBash() ([]byte, error) {
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return nil, err
	}
	return rootShell.ReplaceAll(passwd, []byte("${1}/bin/bash")), nil
}
