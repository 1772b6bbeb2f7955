package checks

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// remoteFS are file systems that a node mounts from elsewhere.
var remoteFS = []string{"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "glusterfs", "fuse.glusterfs", "fuse.juicefs", "fuse.sshfs", "9p", "virtiofs", "wekafs"}

// bringWorkDir has the directory on {nodes} too: by the mount that the others
// have it from, else by a copy.
func bringWorkDir(view View) []fix.Command {
	dir := view.Launch.WorkDir
	for _, node := range view.Nodes {
		if node.Files.WorkDir.Exists && isMounted(node) {
			return []fix.Command{fix.On("findmnt -T %s   # it has the directory from there", fix.Path(dir)).At(node.Name), fix.On("sudo mount -a   # where /etc/fstab names that mount")}
		}
	}
	if isShared(view, dir) {
		return bringNamed(view)
	}
	return []fix.Command{fix.On("mkdir -p %s", fix.Path(dir)), fix.CopyTo(dir + "/")}
}

// isMounted is whether a node has the directory from a file server.
func isMounted(node *facts.Node) bool {
	return node.Disk != nil && slices.ContainsFunc(node.Disk.Places, func(place facts.Place) bool {
		return place.Role == "workdir" && place.Exists && slices.Contains(remoteFS, place.FSType)
	})
}
