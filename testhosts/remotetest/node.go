// SPDX-License-Identifier: Apache-2.0

// Package remotetest builds nodes for the tests of package remote and its carriers. A node has an
// sshd in this process with a login shell, and an agent with test methods. The agent is the test
// binary itself. Only tests import this package.
package remotetest

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"preflight/internal/hostsys"
)

// PromptExit is an environment variable that prevents a race-enabled agent from sleeping for a
// second before it exits.
const PromptExit = "GORACE=atexit_sleep_ms=0"

// Node is a node as an SSH client sees it: a home, a login shell, and the behaviour of its sshd.
type Node struct {
	Home  string
	Shell []string // arguments before the command; nil is /bin/sh -c
	Env   []string // variables in addition to HOME and PATH
	// Exec replaces the shell. It returns the exit status, or -1 to send none.
	Exec func(command string, channel ssh.Channel) int
	// Deaf makes the server answer no global request.
	Deaf bool
	// Refuse makes the server refuse the exec request.
	Refuse bool

	Processes sync.WaitGroup
	Waited    sync.Once
}

// Serve acts as sshd on one connection.
func (n *Node) Serve(conn net.Conn, config *ssh.ServerConfig) {
	_, channels, globals, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	if !n.Deaf {
		go ssh.DiscardRequests(globals)
	}
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		for request := range requests {
			if request.Type != "exec" || n.Refuse {
				request.Reply(false, nil)
				continue
			}
			var exec struct{ Command string }
			if err := ssh.Unmarshal(request.Payload, &exec); err != nil {
				panic(err)
			}
			request.Reply(true, nil)
			n.Processes.Go(func() { n.run(exec.Command, channel) })
		}
	}
	if n.Deaf {
		for range globals {
		}
	}
}

// run runs a command as sshd does.
func (n *Node) run(command string, channel ssh.Channel) {
	defer channel.Close()
	if n.Exec != nil {
		if status := n.Exec(command, channel); status >= 0 {
			channel.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{uint32(status)}))
		}
		return
	}
	argv := append(append([]string(nil), n.Shell...), command)
	if n.Shell == nil {
		argv = []string{"/bin/sh", "-c", command}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = n.Home
	cmd.Env = append([]string{"HOME=" + n.Home, "PATH=/usr/bin:/bin", PromptExit}, n.Env...)
	cmd.Cancel = func() error { return hostsys.KillGroup(cmd) }
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		panic(err)
	}
	ended, err := hostsys.Start(cmd)
	if err != nil {
		io.WriteString(channel.Stderr(), argv[0]+": No such file or directory\n")
		channel.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{1}))
		return
	}
	go func() {
		io.Copy(stdin, channel)
		stdin.Close()
		// A stopped process does not notice that its stdin has ended. sshd would leave such a
		// process running, but a test must kill it.
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
			cancel()
		}
	}()
	<-ended
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		name := map[syscall.Signal]string{syscall.SIGKILL: "KILL", syscall.SIGSEGV: "SEGV"}[status.Signal()]
		channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal      string
			Core        bool
			Error, Lang string
		}{Signal: name}))
		return
	}
	channel.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{uint32(cmd.ProcessState.ExitCode())}))
}

// Script writes an executable shell script.
func Script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
