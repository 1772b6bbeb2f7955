package checks

import (
	"fmt"
	"strings"

	"preflight/facts"
)

// enlargeSHM is how the mount is made large enough, where it is made: in whole GiB, as
// people write it.
func enlargeSHM(node *facts.Node, need int64) []string {
	return sizeSHM(node, max(1, (need+1<<30-1)>>30), "G")
}

// sizeSHM is how the mount gets a size, in GiB ("G") or bytes (""), where it is made.
func sizeSHM(node *facts.Node, amount int64, unit string) []string {
	size := fmt.Sprintf("%d%s", amount, unit)
	switch container := containerOf(node); container {
	case "docker", "podman":
		return []string{fmt.Sprintf("%s run --shm-size=%s …   # start the container of {node} anew with this option; or --ipc=host", container, strings.ToLower(size))}
	case "kubernetes":
		limit := strings.Replace(size, "G", "Gi", 1)
		return []string{fmt.Sprintf(`volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: %s}}] and volumeMounts: [{name: shm, mountPath: /dev/shm}]   # in the pod's spec`, limit)}
	case "lxc":
		return []string{fmt.Sprintf("lxc.mount.entry = tmpfs dev/shm tmpfs nosuid,nodev,size=%s,create=dir 0 0   # in the container's configuration", size)}
	}
	mount := fmt.Sprintf("{ssh} sudo mount -o remount,size=%s /dev/shm", size)
	if !node.SHM.Mounted || node.SHM.FSType != "tmpfs" {
		mount = fmt.Sprintf("{ssh} 'sudo mkdir -p /dev/shm && sudo mount -t tmpfs -o nosuid,nodev,mode=1777,size=%s tmpfs /dev/shm'", size)
	}
	return []string{
		mount,
		fmt.Sprintf("{ssh} 'echo tmpfs /dev/shm tmpfs nosuid,nodev,size=%s 0 0 | sudo tee -a /etc/fstab'   # and after a reboot", size),
	}
}
