package host

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

var SHMLimits = checks.Check{
	ID:       "shm-limits",
	Title:    "the kernel's and systemd's limits leave shared memory alone",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionSHM},
	Volatile: true,
	Doc: "Looks at what else can keep a program from sharing memory although /dev/shm is large: inodes of the mount, the System V limits MPI and UCX " +
		"run into (kernel.shmmax, kernel.shmmni), and logind's RemoveIPC, which deletes a user's segments when the last session ends. pdsh keeps a " +
		"session open for as long as the ranks run, so RemoveIPC is warned of for the other launchers only.",
	WouldSee: "Error: failed to create shared memory file /dev/shm/nccl-XXXXXX, error No space left on device (28)",
	Run: func(v checks.View) []checks.Finding {
		var findings []checks.Finding
		for _, node := range v.Nodes {
			findings = append(findings, limitsOfSHM(node, v)...)
		}
		return findings
	},
}

const (
	fewInodes  = 1024     // segments a node's ranks and DataLoader workers make at a time
	smallSysV  = 64 << 20 // bytes; 32 MiB was the kernel's default before 3.16
	fewSysVIDs = 128
)

func limitsOfSHM(node *facts.Node, v checks.View) []checks.Finding {
	var findings []checks.Finding
	shm := node.SHM
	if shm.Exists && shm.FSType == "tmpfs" && shm.FreeInodes < fewInodes {
		findings = append(findings, checks.Finding{
			Nodes:   []string{node.Name},
			Summary: "/dev/shm has hardly an inode left",
			Got:     fmt.Sprint(shm.FreeInodes),
			Want:    fmt.Sprintf("at least %d", fewInodes),
			Remedy:  []fix.Command{fix.On("sudo mount -o remount,nr_inodes=1M /dev/shm"), fix.On("ls /dev/shm | wc -l")},
		})
	}
	if shm.ShmMax < smallSysV || shm.ShmMni < fewSysVIDs {
		findings = append(findings, checks.Finding{
			Verdict: checks.Warn, Nodes: []string{node.Name},
			Summary:  "the kernel's limits on System V shared memory are small",
			Got:      fmt.Sprintf("kernel.shmmax %s, kernel.shmmni %d", humanize.IBytes(shm.ShmMax), shm.ShmMni),
			Want:     fmt.Sprintf("at least %s and %d", humanize.IBytes(smallSysV), fewSysVIDs),
			Remedy:   []fix.Command{fix.On("sudo sysctl -w kernel.shmmax=68719476736 kernel.shmmni=4096")},
			WouldSee: "shmget failed: Invalid argument (from MPI or UCX; NCCL itself uses /dev/shm)",
		})
	}
	if by := v.Launch.StartedBy(); strings.EqualFold(shm.RemoveIPC, "yes") && by.Name != "" && !by.InSession && (node.Host == nil || node.Host.User != "root") {
		findings = append(findings, checks.Finding{
			Verdict: checks.Warn, Nodes: []string{node.Name},
			Summary:  "logind removes a user's segments when the last session ends (RemoveIPC=yes)",
			Want:     "RemoveIPC=no, because " + by.Name + " may leave ranks running without a session",
			Remedy:   []fix.Command{fix.On(`sudo mkdir -p /etc/systemd/logind.conf.d && printf "[Login]\nRemoveIPC=no\n" | sudo tee /etc/systemd/logind.conf.d/ipc.conf && sudo systemctl restart systemd-logind`)},
			WouldSee: "Error while attaching to shared memory segment /dev/shm/nccl-XXXXXX (size 9637888), error: No such file or directory (2)",
		})
	}
	return findings
}
