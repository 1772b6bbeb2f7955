// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// slurmPrograms lists the daemons on the machines of a cluster with Slurm.
var slurmPrograms = []string{"/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd"}

// HasSlurm returns an error if this machine lacks the programs of Options.Slurm.
func HasSlurm() error {
	for _, program := range slurmPrograms {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s is missing: run testhosts/apt.sh", program)
		}
	}
	return nil
}

// slurmConfig is a configuration for Slurm 22.05. Slurm's state is in directories of which every
// machine has its own. A node reports its slots as processors, regardless of this machine's
// processors (config_overrides). It also reports one GPU for each slot, without a device. A job
// always has a process on each of its nodes (PrologFlags). Slurm identifies steps by process
// groups. proctrack/linuxproc would read all processes, and every node sees this machine's
// processes.
const slurmConfig = `ClusterName=testhosts
SlurmctldHost=%[1]s(%[2]s)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PrologFlags=Contain
ReturnToService=2
GresTypes=gpu
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE
`

// addSlurm adds the files that Slurm reads on every machine: one configuration and one key.
//
// slurmd 22.05 always loads a cgroup plugin, and cannot detect the right plugin in a namespace. The
// plugin for v1 can be loaded and changes nothing.
func (c *Cluster) addSlurm(files map[string][]byte) {
	config := bytes.NewBufferString(fmt.Sprintf(slurmConfig, c.Head.Name, c.Head.Address))
	for _, n := range c.Nodes {
		fmt.Fprintf(config, "NodeName=%s NodeAddr=%s CPUs=%d Gres=gpu:%d State=UNKNOWN\n", n.Name, n.Address, c.Slots, c.Slots)
	}
	gpus := fmt.Sprintf("Name=gpu File=/run/slurm/gpu[0-%d]\n", c.Slots-1)
	key := make([]byte, 128)
	rand.Read(key) // never fails
	for _, n := range c.Machines() {
		etc := filepath.Join(n.Name, "etc")
		files[filepath.Join(etc, "slurm/slurm.conf")] = config.Bytes()
		files[filepath.Join(etc, "slurm/gres.conf")] = []byte(gpus)
		files[filepath.Join(etc, "slurm/cgroup.conf")] = []byte("CgroupPlugin=cgroup/v1\n")
		files[filepath.Join(etc, "munge/testhosts_key")] = key
	}
}

// startSlurm starts the machine's Slurm daemons, which run in the background.
func (n *Node) startSlurm(ctx context.Context) error {
	script := `set -e
mkdir -p -m 755 /run/slurm /run/slurm/state /run/slurm/spool /run/munge
munged --force --key-file=/etc/munge/testhosts_key --socket=/run/munge/munge.socket.2 \
	--pid-file=/run/munge/munged.pid --log-file=/var/log/munged.log --seed-file=/run/munge/seed 2>/dev/null
`
	if n == n.cluster.Head {
		script += "slurmctld -c -i\n"
	} else {
		script += fmt.Sprintf("for gpu in $(seq 0 %d); do mknod /run/slurm/gpu$gpu c 1 3; done\nslurmd -N %s\n", n.cluster.Slots-1, n.Name)
	}
	_, err := n.Run(ctx, "/bin/sh", "-c", script)
	return err
}

// slurmPatience is longer than a busy machine needs until Slurm offers its nodes.
const slurmPatience = time.Minute

// raiseSlurm starts Slurm on all machines and returns when every node is idle.
func (c *Cluster) raiseSlurm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slurmPatience)
	defer cancel()
	for _, n := range c.Machines() {
		if err := n.startSlurm(ctx); err != nil {
			return err
		}
	}
	for {
		idle, err := c.Head.Run(ctx, "sinfo", "--noheader", "--Node", "--states=idle", "--format=%N")
		if err == nil && len(strings.Fields(idle)) == len(c.Nodes) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("idle in Slurm are %q of %d nodes", strings.Fields(idle), len(c.Nodes)), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// InSlurmJob returns a Cmd that runs argv on the launching machine in an allocation of all nodes.
// The allocation ends with the command.
func (c *Cluster) InSlurmJob(ctx context.Context, argv ...string) *Cmd {
	return c.OnHead(ctx, append([]string{"salloc", "--quiet", "--nodes", fmt.Sprint(len(c.Nodes)), "--ntasks-per-node", fmt.Sprint(c.Slots)}, argv...)...)
}

// StopSlurmd ends the daemon with which Slurm starts processes on the node.
func (n *Node) StopSlurmd() (Undo, error) {
	_, err := n.shell(`pid=$(cat /run/slurm/slurmd.pid); kill -KILL "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done`)
	return func() error {
		_, err := n.shell("slurmd -N " + n.Name)
		return err
	}, err
}

// slurmAdopt denies logins of users without a job on the node. pam_slurm_adopt does the same for
// every user except root, whom it always admits (Slurm 22.05, contribs/pam_slurm_adopt,
// pam_sm_acct_mgmt). A job has a process on the node from its start to its end.
const slurmAdopt = `#!/bin/sh
pgrep -x slurmstepd >/dev/null && exit 0
echo "Access denied by pam_slurm_adopt: you have no active jobs on this node"
exit 1
`

// AdmitJobs makes sshd admit only users with a Slurm job on the node.
func (n *Node) AdmitJobs() (Undo, error) {
	const program = "/run/slurm-adopt"
	if err := n.WriteFile(program, []byte(slurmAdopt), 0o755); err != nil {
		return nil, err
	}
	// The node's sshd does not use PAM without this fault, so these are all the rules that it
	// needs.
	rules := "auth required pam_permit.so\naccount required pam_exec.so quiet stdout " + program + "\nsession required pam_permit.so\n"
	forget, err := n.Configure("/etc/pam.d/sshd", rules)
	if err != nil {
		return nil, err
	}
	restore, err := n.edit("/etc/ssh/sshd_config", func(text string) string { return strings.Replace(text, "UsePAM no", "UsePAM yes", 1) })
	if err != nil {
		return nil, errors.Join(err, forget())
	}
	undo := func() error { return errors.Join(restore(), forget(), n.reloadSSHD()) }
	return undo, n.reloadSSHD()
}
