package checks

import (
	"fmt"

	"preflight/facts"
)

// enlargeSHM is how the mount is made large enough, where it is made.
func enlargeSHM(node *facts.Node, need int64) []string {
	gib := max(1, (need+1<<30-1)>>30) // whole GiB, as people write it
	switch container := containerOf(node); container {
	case "docker", "podman":
		return []string{fmt.Sprintf("%s run --shm-size=%dg …   # start the container of {node} anew with this option; or --ipc=host", container, gib)}
	case "kubernetes":
		return []string{fmt.Sprintf(`volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: %dGi}}] and volumeMounts: [{name: shm, mountPath: /dev/shm}]   # in the pod's spec`, gib)}
	case "lxc":
		return []string{fmt.Sprintf("lxc.mount.entry = tmpfs dev/shm tmpfs nosuid,nodev,size=%dG,create=dir 0 0   # in the container's configuration", gib)}
	}
	mount := fmt.Sprintf("{ssh} sudo mount -o remount,size=%dG /dev/shm", gib)
	if !node.SHM.Mounted || node.SHM.FSType != "tmpfs" {
		mount = fmt.Sprintf("{ssh} 'sudo mkdir -p /dev/shm && sudo mount -t tmpfs -o nosuid,nodev,mode=1777,size=%dG tmpfs /dev/shm'", gib)
	}
	return []string{
		mount,
		fmt.Sprintf("{ssh} 'echo tmpfs /dev/shm tmpfs nosuid,nodev,size=%dG 0 0 | sudo tee -a /etc/fstab'   # and after a reboot", gib),
	}
}
