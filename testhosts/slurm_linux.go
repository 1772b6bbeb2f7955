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

// slurmPrograms are what the machines of a cluster with Slurm run.
var slurmPrograms = []string{"/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd"}

// HasSlurm is whether this machine has the programs of Options.Slurm.
func HasSlurm() error {
	for _, program := range slurmPrograms {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s is missing: run testhosts/apt.sh", program)
		}
	}
	return nil
}

// slurmConfig is of Slurm 22.05. What it keeps lies in directories that every machine has
// for itself. A node claims its slots for processors, whatever this machine has
// (config_overrides), and a GPU for each, which no device is behind. A job has a process on
// each of its nodes all the time (PrologFlags). A step is what stands in its process groups:
// proctrack/linuxproc reads of every process that there is, and all nodes have those of this machine.
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

// addSlurm adds what Slurm reads on every machine: one configuration and one key.
//
// slurmd 22.05 loads a plugin for cgroups whatever else is said, and does not find out by
// itself which in a namespace: v1's loads, and touches nothing.
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

// startSlurm starts the machine's part of Slurm, which goes to the background by itself.
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

// slurmPatience is more than a busy machine needs until Slurm gives out its nodes.
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

// InSlurmJob prepares argv to run on the head inside an allocation of all nodes, which ends
// with it.
func (c *Cluster) InSlurmJob(ctx context.Context, argv ...string) *Cmd {
	return c.OnHead(ctx, append([]string{"salloc", "--quiet", "--nodes", fmt.Sprint(len(c.Nodes)), "--ntasks-per-node", fmt.Sprint(c.Slots)}, argv...)...)
}

// StopSlurmd ends the daemon through which Slurm starts anything on the node.
func (n *Node) StopSlurmd() (Undo, error) {
	_, err := n.shell(`pid=$(cat /run/slurm/slurmd.pid); kill -KILL "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done`)
	return func() error {
		_, err := n.shell("slurmd -N " + n.Name)
		return err
	}, err
}

// slurmAdopt is what pam_slurm_adopt does with a login of anybody but root, whom it always
// lets pass (Slurm 22.05, contribs/pam_slurm_adopt, pam_sm_acct_mgmt): without a job on the
// node, which has a process there from its beginning to its end, the account is closed.
const slurmAdopt = `#!/bin/sh
pgrep -x slurmstepd >/dev/null && exit 0
echo "Access denied by pam_slurm_adopt: you have no active jobs on this node"
exit 1
`

// AdmitJobs has sshd let in nobody but who has a Slurm job on the node.
func (n *Node) AdmitJobs() (Undo, error) {
	const program = "/run/slurm-adopt"
	if err := n.WriteFile(program, []byte(slurmAdopt), 0o755); err != nil {
		return nil, err
	}
	// Our sshd asks no PAM otherwise, so that these are all the rules there are.
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
