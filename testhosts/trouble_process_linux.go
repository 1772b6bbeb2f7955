// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Freeze stops every process of the node, including sshd. The kernel still accepts TCP connections,
// but no process answers.
func (n *Node) Freeze() (Undo, error) {
	return func() error { return n.signalAll("CONT") }, n.signalAll("STOP")
}

// Kill ends all processes of the node, including sshd. It returns when the node refuses
// connections.
func (n *Node) Kill() (Undo, error) {
	if err := n.signalAll("KILL"); err != nil {
		return nil, err
	}
	// Wait for the end of the process, because the port stays open until then.
	_, err := n.shell(`pid=$(cat ` + sshdPid + `); while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done; rm ` + sshdPid)
	if err != nil {
		return nil, err
	}
	return n.startSSHD, nil
}

// startSSHD starts sshd again, with the command line of node.sh.
func (n *Node) startSSHD() error {
	if _, err := n.Run(context.Background(), "/usr/sbin/sshd", "-E", "/var/log/sshd.log"); err != nil {
		return err
	}
	return n.awaitSSHD(context.Background())
}

// signalAll sends a signal to every process of the node except the first process. kill -1 does this
// in a separate process table.
func (n *Node) signalAll(signal string) error {
	_, err := n.shell("kill -" + signal + " -1")
	return err
}

// ChangeHostKey gives sshd a new key that no other machine knows, as after a reinstallation.
func (n *Node) ChangeHostKey() (Undo, error) {
	other, err := generateKey()
	if err != nil {
		return nil, err
	}
	private, public, err := other.files(n.Name)
	if err != nil {
		return nil, err
	}
	const name = "/etc/ssh/ssh_host_ed25519_key"
	restore, err := n.edit(name, func(string) string { return string(private) })
	if err != nil {
		return nil, err
	}
	restorePublic, err := n.edit(name+".pub", func(string) string { return string(public) })
	if err != nil {
		return restore, err
	}
	return func() error { return errors.Join(restore(), restorePublic(), n.reloadSSHD()) }, n.reloadSSHD()
}

// reloadSSHD makes sshd read its configuration again, and returns when it listens.
func (n *Node) reloadSSHD() error {
	if _, err := n.shell(`pid=$(cat ` + sshdPid + `) && rm ` + sshdPid + ` && kill -HUP "$pid"`); err != nil {
		return err
	}
	return n.awaitSSHD(context.Background())
}

// Limit sets the soft resource limit of all future sessions. resource is the name that prlimit uses
// (memlock, nofile, nproc, …), and value has the unit of that resource. The hard limit stays,
// because not every root user may raise it again.
func (n *Node) Limit(resource string, value int64) (Undo, error) {
	const prlimit = `prlimit --pid "$(cat ` + sshdPid + `)" `
	before, err := n.shell(prlimit + "--raw --noheadings --output=SOFT --" + resource)
	if err != nil {
		return nil, err
	}
	set := func(limit string) error {
		_, err := n.shell(prlimit + "--" + resource + "=" + limit + ":")
		return err
	}
	return func() error { return set(strings.TrimSpace(before)) }, set(strconv.FormatInt(value, 10))
}

// HoldPort starts a process on the node that listens on a TCP port. It returns when the process
// listens. The process outlives the caller, but not the node.
func (n *Node) HoldPort(port int) (Undo, error) {
	// Use no context, because the process must stay until Undo is called or the node ends.
	cmd := n.Command(context.Background(), "/usr/bin/python3", "-c", `
import socket, sys, time
sys.excepthook = lambda kind, value, trace: print(value)
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", int(sys.argv[1])))
s.listen()
print("listening", flush=True)
while True: time.sleep(3600)`, strconv.Itoa(port))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	ended := make(chan struct{})
	n.cluster.waiting.Go(func() {
		defer close(ended)
		cmd.Wait() // the process was killed or has printed an error
	})
	if line != "listening\n" {
		<-ended
		return nil, fmt.Errorf("%s: hold port %d: %s%v", n.Name, port, line, err)
	}
	return func() error {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-ended
		return nil
	}, nil
}
