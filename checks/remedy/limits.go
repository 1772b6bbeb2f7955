// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"path"
	"strconv"
	"strings"

	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

// lockMemory is the note that removes a pod's limit on locked memory. It helps only root, because
// Kubernetes gives other users no usable capability.
var lockMemory = fix.Note(`set securityContext: {capabilities: {add: ["IPC_LOCK"]}} in the container's spec, if it runs as root`)

// RaiseMemlock returns the commands that remove the limit on locked memory.
func RaiseMemlock(node *facts.Node) []fix.Command {
	commands := raiseLimit(node, "memlock", fix.Code("memlock=-1"), "unlimited", "LimitMEMLOCK=infinity", fix.On("ulimit -l   # in a new session: shows unlimited"))
	if ranks.ContainerOf(node) == "kubernetes" && node.Host.User == "root" {
		return append([]fix.Command{lockMemory}, commands...)
	}
	return commands
}

// ManyFiles is the limit that the commands of RaiseOpenFiles set, both soft and hard.
const ManyFiles = 1 << 20

// RaiseOpenFiles returns the commands that raise the limit on open files and sockets. The new limit
// is enough for any launch.
func RaiseOpenFiles(node *facts.Node) []fix.Command {
	limit := strconv.Itoa(ManyFiles)
	return raiseLimit(node, "nofile", fix.Code("nofile=%s:%[1]s", fix.Name(limit)), limit, "LimitNOFILE="+limit, fix.On("ulimit -Sn; ulimit -Hn   # in a new session: shows the new limits"))
}

// raiseLimit returns the commands that set a limit. A container gets its limits when it starts. A
// pod gets them from the systemd unit of its container runtime, because a pod's spec has no limits.
// An ssh session gets them from PAM, or without PAM from the systemd unit of sshd. In limits.d, "*"
// does not apply to root.
//
// Source for pods: kubernetes/kubernetes issue 3595; containerd/containerd issue 3201.
func raiseLimit(node *facts.Node, item string, ulimit fix.Arg, value, property string, show fix.Command) []fix.Command {
	container := ranks.ContainerOf(node)
	if container == "kubernetes" {
		return []fix.Command{
			fix.Console(`unit=/etc/systemd/system/containerd.service.d && sudo mkdir -p $unit && printf "[Service]\n%s\n" | sudo tee $unit/90-%s.conf && sudo systemctl daemon-reload && sudo systemctl restart containerd   # on the machine of {nodes}; with CRI-O the unit is crio`, fix.Name(property), fix.Name(item)),
			fix.Here("kubectl delete pod {host}{pods}   # its controller creates it again, with the new limit").As(fix.Then),
		}
	}
	if commands := StartAgain(container, Lack{option: fix.Code("--ulimit %s", ulimit)}); commands != nil {
		return commands
	}
	return []fix.Command{
		OnMachine(node, fix.On(`printf "* - %s %s\nroot - %[1]s %[2]s\n" | sudo tee /etc/security/limits.d/90-%[1]s.conf   # for sshd with UsePAM yes`, fix.Name(item), fix.Name(value))),
		OnMachine(node, fix.On(`unit=/etc/systemd/system/ssh.service.d && sudo mkdir -p $unit && printf "[Service]\n%s\n" | sudo tee $unit/90-%s.conf && sudo systemctl daemon-reload && sudo systemctl restart ssh   # for sshd without PAM; on Red Hat the unit is sshd`, fix.Name(property), fix.Name(item))).As(fix.Then),
		show.As(fix.Look),
	}
}

// RaiseCPUTime and RaiseAddressSpace return the commands that remove a limit of each process.
func RaiseCPUTime(node *facts.Node) []fix.Command {
	return append(raiseLimit(node, "cpu", fix.Code("cpu=-1"), "unlimited", "LimitCPU=infinity", fix.On("ulimit -t   # in a new session: shows unlimited")),
		fix.On(`sed -i.before "/^ *ulimit .*-t/s/^/#/" ~/.bashrc   # if that file sets it`).As(fix.Then))
}

func RaiseAddressSpace(node *facts.Node) []fix.Command {
	return append(raiseLimit(node, "as", fix.Code("as=-1"), "unlimited", "LimitAS=infinity", fix.On("ulimit -v   # in a new session: shows unlimited")),
		fix.On(`sed -i.before "/^ *ulimit .*-v/s/^/#/" ~/.bashrc   # if that file sets it`).As(fix.Then))
}

// RaiseProcesses returns the commands that raise the limit on processes and threads. They raise the
// limit of the cgroup of the container or session if ofCgroup is true, otherwise the limit of the
// user.
//
// Sources: systemd.resource-control(5), TasksMax; kubernetes.io/docs, PID limits, podPidsLimit.
func RaiseProcesses(node *facts.Node, ofCgroup bool) []fix.Command {
	if !ofCgroup {
		return raiseLimit(node, "nproc", fix.Code("nproc=-1"), "unlimited", "LimitNPROC=infinity", fix.On("ulimit -u   # in a new session: shows the new limit"))
	}
	container := ranks.ContainerOf(node)
	if container == "kubernetes" {
		return []fix.Command{fix.Note("raise podPidsLimit in the kubelet's configuration on the machine of {nodes}, restart the kubelet, and delete the pod, so that it is created again")}
	}
	if commands := StartAgain(container, Lack{option: fix.Code("--pids-limit=-1")}); commands != nil {
		return commands
	}
	return []fix.Command{
		OnMachine(node, fix.On("sudo systemctl set-property user-$(id -u).slice TasksMax=infinity   # or the slice that the launch runs in")),
		fix.On("cat /proc/self/cgroup /sys/fs/cgroup/$(cut -d: -f3 /proc/self/cgroup)/pids.max   # in a new session: shows the cgroup and its limit").As(fix.Look),
	}
}

// RaiseMemory returns the commands that raise the memory limit of a cgroup of the ranks. file has the
// limit; it is "" if unknown. A unit of systemd keeps a limit that systemctl sets. Slurm sets the limit
// of each job itself, in a cgroup whose path contains "slurm".
//
// Source: systemd.resource-control(5), MemoryMax and MemoryHigh; docker container update.
func RaiseMemory(node *facts.Node, file string) []fix.Command {
	switch container := ranks.ContainerOf(node); {
	case container == "kubernetes", strings.Contains(file, "/kubepods"):
		return []fix.Command{fix.Note("raise resources: {limits: {memory: …}} in the pod's spec")}
	case isEngine(container):
		return []fix.Command{fix.Note("run %s update --memory 0 --memory-swap -1 with the container of {nodes}, or start it again without --memory", fix.Name(container))}
	case node.SSH != nil && node.SSH.Carrier == "srun", strings.Contains(file, "/slurm"):
		return []fix.Command{fix.Note("ask Slurm for the job with --mem=0, which means all memory of the node")}
	case file == "":
		return []fix.Command{fix.On("cat /proc/self/cgroup   # shows the cgroup").As(fix.Look), fix.Note("raise the memory limit of the session on {nodes}")}
	}
	shown := fix.On("cat %s", fix.Path(file)).As(fix.Look)
	switch unit := path.Base(path.Dir(file)); path.Ext(unit) {
	case ".slice", ".service", ".scope":
		return []fix.Command{shown, OnMachine(node, fix.On("sudo systemctl set-property %s MemoryMax=infinity MemoryHigh=infinity", fix.Name(unit)))}
	}
	none := fix.Code("max")
	if path.Base(file) == "memory.limit_in_bytes" {
		none = fix.Code("-1")
	}
	return []fix.Command{shown, OnMachine(node, fix.On("echo %s | sudo tee %s", none, fix.Path(file)))}
}

// LengthenBacklog returns the commands that raise the number of waiting connections that the kernel
// keeps. Each network namespace has its own setting.
func LengthenBacklog(node *facts.Node, callers int) []fix.Command {
	length := int64(4096)
	for length < int64(callers) {
		length *= 2
	}
	setting := fix.Code("net.core.somaxconn=%s", fix.Number(length))
	if commands := StartAgain(ranks.ContainerOf(node), Lack{option: fix.Code("--sysctl %s", setting)}); commands != nil {
		return commands
	}
	return []fix.Command{OnMachine(node, fix.On("sudo sysctl -w %s | sudo tee /etc/sysctl.d/90-somaxconn.conf", setting))}
}
