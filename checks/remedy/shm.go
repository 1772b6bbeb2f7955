package remedy

import (
	"fmt"
	"strings"

	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

// EnlargeSHM is how the mount is made large enough, where it is made: in whole GiB, as
// people write it.
func EnlargeSHM(node *facts.Node, need int64) []fix.Command {
	return SizeSHM(node, max(1, (need+1<<30-1)>>30), "G")
}

// SizeSHM is how the mount gets a size, in GiB ("G") or bytes (""), where it is made.
func SizeSHM(node *facts.Node, amount int64, unit string) []fix.Command {
	size := fmt.Sprintf("%d%s", amount, unit)
	switch container := ranks.ContainerOf(node); container {
	case "docker", "podman":
		return []fix.Command{fix.Here("%s run --shm-size=%s …   # start the container of {node} anew with this option; or --ipc=host", fix.Name(container), fix.Name(strings.ToLower(size)))}
	case "kubernetes":
		limit := strings.Replace(size, "G", "Gi", 1)
		return []fix.Command{fix.Here("volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: %s}}] and volumeMounts: [{name: shm, mountPath: /dev/shm}]   # in the pod's spec", fix.Name(limit))}
	case "lxc":
		return []fix.Command{fix.Here("lxc.mount.entry = tmpfs dev/shm tmpfs nosuid,nodev,size=%s,create=dir 0 0   # in the container's configuration", fix.Name(size))}
	}
	mount := fix.On("sudo mount -o remount,size=%s /dev/shm", fix.Name(size))
	if !node.SHM.Mounted || node.SHM.FSType != "tmpfs" {
		mount = fix.On("sudo mkdir -p /dev/shm && sudo mount -t tmpfs -o nosuid,nodev,mode=1777,size=%s tmpfs /dev/shm", fix.Name(size))
	}
	return []fix.Command{
		mount,
		fix.On("echo tmpfs /dev/shm tmpfs nosuid,nodev,size=%s 0 0 | sudo tee -a /etc/fstab   # and after a reboot", fix.Name(size)),
	}
}
