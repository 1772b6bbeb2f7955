// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// HasDocker returns an error if this machine lacks the programs of StartDocker.
func HasDocker() error {
	for _, program := range []string{"dockerd", "docker", "iptables"} {
		if !slices.ContainsFunc(filepath.SplitList(standardPath), func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, program))
			return err == nil
		}) {
			return fmt.Errorf("%s is missing: run testhosts/apt.sh docker", program)
		}
	}
	return nil
}

// dockerCgroups is the parent of all cgroups of containers, in each hierarchy. The machine and all
// nodes share the hierarchies, so these cgroups outlive a cluster (see removeCgroups).
const dockerCgroups = "preflight-testhosts"

// StartDocker starts a Docker daemon on the node, with the image of RunDocker, which contains no
// programs. Undo ends the daemon and its containers. All of them also end with the node.
//
// dockerd keeps its files below /run, and every node has its own /run. Its containerd also creates
// a directory in /opt.
func (n *Node) StartDocker() (Undo, error) {
	undo, err := n.layer("/opt", func(string) error { return nil })
	if err != nil {
		return nil, err
	}
	_, err = n.shell(`set -e
mkdir -p /run/docker-data /run/docker-image
dockerd --data-root /run/docker-data --exec-root /run/docker-exec --pidfile /run/docker.pid --host unix:///run/docker.sock \
	--exec-opt native.cgroupdriver=cgroupfs --cgroup-parent '/` + filepath.Join(dockerCgroups, n.cluster.Name, n.Name) + `' >/var/log/dockerd.log 2>&1 </dev/null &
for i in $(seq 300); do
	docker version >/dev/null 2>&1 && break
	[ "$i" -lt 300 ] && kill -0 $! || { cat /var/log/dockerd.log; exit 1; }
	sleep 0.1
done
cd /run/docker-image
mkdir -p usr etc root tmp run/sshd var/tmp var/log
for name in bin sbin lib lib64; do ln -sfn usr/$name $name; done
chmod 1777 tmp var/tmp
printf 'root:x:0:0::/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\ntrain:x:1000:1000::/home/train:/bin/sh\n' >etc/passwd
printf 'root:*:19000:0:99999:7:::\n' >etc/shadow
printf 'root:x:0:\ntrain:x:1000:\nnogroup:x:65534:\n' >etc/group
cp /etc/nsswitch.conf etc
mkdir -p home/train
chown 1000:1000 home/train
tar -c . | docker import - train >/dev/null`)
	return func() error {
		_, err := n.shell("kill $(cat /run/docker.pid); for i in $(seq 300); do [ -e /run/docker.pid ] || exit 0; sleep 0.1; done; echo dockerd does not end; exit 1")
		return errors.Join(err, undo())
	}, err
}

// RunDocker starts a container of this name on the node, with additional options of docker run. It
// has docker's defaults, this machine's programs, and the directories that the nodes share.
func (n *Node) RunDocker(name string, options ...string) (Undo, error) {
	for _, dir := range append([]string{"/usr:ro", "/etc/alternatives:ro"}, n.cluster.share...) {
		path, _, _ := strings.Cut(dir, ":")
		options = append(options, "--volume "+path+":"+dir)
	}
	_, err := n.shell("docker rm --force " + name + " >/dev/null 2>&1; docker run --detach --stop-signal KILL --name " + name + " " + strings.Join(options, " ") + " train sleep infinity")
	return func() error {
		_, err := n.shell("docker rm --force " + name)
		return err
	}, err
}

// removeCgroups removes the cgroups of a cluster's containers, which are empty because all
// processes have ended.
func removeCgroups(cluster string) error {
	var found []string
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		matches, err := filepath.Glob(filepath.Join(hierarchy, dockerCgroups, cluster))
		if err != nil {
			return err
		}
		found = append(found, matches...)
	}
	var all error
	for _, top := range found {
		var dirs []string
		filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		slices.Reverse(dirs) // children first
		for _, dir := range dirs {
			all = errors.Join(all, removeCgroup(dir, 1000))
		}
		// This fails while other clusters have containers, which is fine.
		_ = removeCgroup(filepath.Dir(top), 5)
	}
	return all
}

// removeCgroup removes one cgroup. The kernel frees a cgroup only after it has freed the processes
// that ended in it.
func removeCgroup(dir string, tries int) error {
	err := unix.Rmdir(dir)
	for ; errors.Is(err, unix.EBUSY) && tries > 0; tries-- {
		time.Sleep(10 * time.Millisecond)
		err = unix.Rmdir(dir)
	}
	return err
}
