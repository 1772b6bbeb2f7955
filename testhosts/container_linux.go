// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"fmt"
	"os"
	"strings"
)

// containerPrograms lists the programs with which a node runs a container.
var containerPrograms = []string{"/usr/bin/podman", "/usr/bin/crun", "/usr/bin/conmon"}

// HasPodman returns an error if this machine lacks the programs of RunContainer.
func HasPodman() error {
	for _, program := range containerPrograms {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s is missing: run testhosts/apt.sh", program)
		}
	}
	return nil
}

// ImagePython is an interpreter that exists in containers, but not on nodes.
const ImagePython = "/opt/train/bin/python3"

// RunContainer starts a container of this name on the node, with additional podman options. The
// container has the node's network, a private writable copy of this machine's files, 64 MiB of
// shared memory (podman's default), and a limit of 1024 open files.
//
// podman keeps its files below /run, and every node has its own /run. The container gets no cgroup.
// crun 1.8 refuses machines with both versions of cgroups, so the node hides version 2.
// RunContainer sets the limit on processes explicitly. Otherwise podman would raise the limit,
// which root without CAP_SYS_RESOURCE may not do.
func (n *Node) RunContainer(name string, options ...string) (Undo, error) {
	_, err := n.shell(`set -e
umount /sys/fs/cgroup/unified 2>/dev/null || :
mkdir -p /etc/containers /run/image/bin
ln -sfn /usr/bin/python3 /run/image/bin/python3
printf '[storage]\ndriver = "vfs"\nrunroot = "/run/podman/run"\ngraphroot = "/run/podman/root"\n' >/etc/containers/storage.conf
printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n' >/etc/containers/containers.conf
podman run --detach --replace --name '` + name + `' --cgroups disabled --network host --shm-size 64m --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
	--volume /run/image:/opt/train:ro ` + strings.Join(options, " ") + ` --rootfs /:O sleep infinity`)
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := n.shell("podman rm --force --time 0 '" + name + "'")
		return err
	}, nil
}

// LandInside makes every login to the node run in a container on the node, of podman or docker. It
// uses a forced command in authorized_keys. sshd passes the requested command to the forced command
// in a variable.
func (n *Node) LandInside(engine, name string) (Undo, error) {
	return n.edit("/root/.ssh/authorized_keys", func(text string) string {
		return `command="` + engine + ` exec -i ` + name + ` sh -c \"$SSH_ORIGINAL_COMMAND\"" ` + text
	})
}
