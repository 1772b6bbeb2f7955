package checks

import (
	"fmt"

	"preflight/facts"
	"preflight/launch"

	"github.com/dustin/go-humanize"
)

var shmSize = Check{
	ID:       "shm-size",
	Title:    "/dev/shm holds what NCCL will reserve for the ranks there, and head-room for DataLoader workers",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionSHM},
	Doc: "The need is computed: what NCCL of the version found reserves for the ranks on the node, plus a head-room (policy shm_headroom) for the " +
		"batches DataLoader workers hand over. NCCL reserves its blocks up front, so a mount that is too small fails at the first collective. " +
		"With accelerator cpu NCCL is not used and the head-room alone counts. A mount that is large enough but filled by others is warned of.",
	WouldSee: "Error: failed to extend /dev/shm/nccl-XXXXXX to 33030532 bytes, error: No space left on device (28)",
	Run: func(v View) []Finding {
		var findings []Finding
		fleets := fleetNCCL(v)
		for _, node := range v.Nodes {
			need, arithmetic := shmNeed(node, v, fleets)
			if finding, found := tooSmall(node, need, arithmetic); found {
				findings = append(findings, finding)
			}
		}
		return findings
	},
}

// tooSmall judges one /dev/shm by the bytes it must hold.
func tooSmall(node *facts.Node, need int64, arithmetic string) (Finding, bool) {
	shm := node.SHM
	finding := Finding{
		Nodes: []string{node.Name},
		Got:   humanize.IBytes(uint64(shm.Size)),
		Want:  fmt.Sprintf("at least %s: %s", humanize.IBytes(uint64(need)), arithmetic),
		Fix:   enlargeSHM(node, need),
	}
	switch {
	case !shm.Exists:
		finding.Summary, finding.Got = noSHM, ""
		finding.WouldSee = "Call to stat failed: No such file or directory"
	case shm.Size < need:
		finding.Summary = "/dev/shm is too small"
	case shm.Free < need:
		finding.Verdict = Warn
		finding.Summary = "/dev/shm is large enough but other programs fill it"
		finding.Got = fmt.Sprintf("%s free of %s", humanize.IBytes(uint64(shm.Free)), humanize.IBytes(uint64(shm.Size)))
		if len(shm.Segments) > 0 {
			largest := shm.Segments[0]
			finding.Got += fmt.Sprintf("; the largest file is %s, %s of %s", largest.Name, humanize.IBytes(uint64(largest.Size)), largest.Owner)
		}
		finding.Fix = []string{"{ssh} 'ls -lSh /dev/shm | head; sudo fuser -v /dev/shm/*'"}
	case shm.FSType != "tmpfs" && shm.FSType != "":
		finding.Verdict = Warn
		finding.Summary = "/dev/shm is not in memory, so what ranks share goes through a disk"
		finding.Got, finding.Want = shm.FSType, "tmpfs"
		finding.WouldSee = "nothing: training is slow, and slower on this node than on the others"
	default:
		return Finding{}, false
	}
	return finding, true
}

const noSHM = "there is no /dev/shm"

// shmNeed is the bytes /dev/shm of a node must hold, and how they come about.
func shmNeed(node *facts.Node, v View, fleets string) (int64, string) {
	headroom := fmt.Sprintf("%s head-room for DataLoader workers", humanize.IBytes(uint64(v.Policy.SHMHeadroom)))
	if v.Launch.Accelerator == "cpu" {
		return v.Policy.SHMHeadroom, headroom + ", and nothing for NCCL: it is not used with accelerator cpu"
	}
	version := ncclVersion(node)
	if version == "" {
		version = fleets
	}
	use := launch.SHMNeed(version, ranksOn(node, v), len(v.Launch.Hosts), 1)
	arithmetic := use.Arithmetic + " + " + headroom
	if use.Segments > 0 {
		arithmetic += fmt.Sprintf("; %s more where its GPUs cannot reach each other directly", humanize.IBytes(uint64(use.Segments)))
	}
	return use.Bytes + v.Policy.SHMHeadroom, arithmetic
}

// enlargeSHM is how the mount is made large enough, where it is made.
func enlargeSHM(node *facts.Node, need int64) []string {
	gib := max(1, (need+1<<30-1)>>30) // whole GiB, as people write it
	container := ""
	if node.Host != nil {
		container = node.Host.Container
	}
	switch container {
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
