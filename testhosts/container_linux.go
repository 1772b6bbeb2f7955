// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"fmt"
	"os"
	"strings"
)

// containerPrograms are what a node runs a container with.
var containerPrograms = []string{"/usr/bin/podman", "/usr/bin/crun", "/usr/bin/conmon"}

// HasPodman is whether this machine has the programs of RunContainer.
func HasPodman() error {
	for _, program := range containerPrograms {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s is missing: run testhosts/apt.sh", program)
		}
	}
	return nil
}

// ImagePython is an interpreter that containers have and nodes have not.
const ImagePython = "/opt/train/bin/python3"

// RunContainer starts a container of that name on the node, with podman's options besides. It
// has the node's network and the files of this machine, which it may write to for itself, 64
// MiB of shared memory (podman's own default), and 1024 open files.
//
// podman keeps what is its own below /run, which every node has for itself. It makes no
// cgroup, and crun 1.8 refuses machines that have both kinds of them, so that the node loses
// sight of the second. A limit on processes is given because podman would raise it, which a
// root without CAP_SYS_RESOURCE may not.
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

// LandInside has every login of the node land in a container that runs there, as
// authorized_keys may say: sshd hands what was asked for to the forced command in a variable.
func (n *Node) LandInside(name string) (Undo, error) {
	return n.edit("/root/.ssh/authorized_keys", func(text string) string {
		return `command="podman exec -i ` + name + ` sh -c \"$SSH_ORIGINAL_COMMAND\"" ` + text
	})
}
