package remote

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
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
)

// promptExit keeps an agent that is tested for races from sleeping for a second
// before it exits.
const promptExit = "GORACE=atexit_sleep_ms=0"

// testNode is a node as seen behind a login: a home, a login shell, and what
// its sshd does.
type testNode struct {
	home  string
	shell []string // argv before the command; nil = /bin/sh -c
	env   []string // besides HOME and PATH
	// exec replaces the shell. It returns an exit status, or -1 for none.
	exec func(command string, channel ssh.Channel) int
	// deaf servers answer no global request.
	deaf bool
	// refuse is what happens to the exec request.
	refuse bool

	processes sync.WaitGroup
	waited    sync.Once
}

// connect starts the node's server and logs in to it.
func (n *testNode) connect(t *testing.T) *connection {
	t.Helper()
	if n.home == "" {
		n.home = t.TempDir()
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	n.waited.Do(func() { t.Cleanup(n.processes.Wait) }) // after every connection is closed
	n.processes.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		n.serve(conn, config)
	})
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	sshConn, channels, requests, err := ssh.NewClientConn(conn, "w1", &ssh.ClientConfig{
		HostKeyCallback: ssh.FixedHostKey(signer.PublicKey()),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &connection{Client: ssh.NewClient(sshConn, channels, requests)}
	t.Cleanup(func() { client.Close() })
	return client
}

func (n *testNode) serve(conn net.Conn, config *ssh.ServerConfig) {
	_, channels, globals, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	if !n.deaf {
		go ssh.DiscardRequests(globals)
	}
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		for request := range requests {
			if request.Type != "exec" || n.refuse {
				request.Reply(false, nil)
				continue
			}
			var exec struct{ Command string }
			if err := ssh.Unmarshal(request.Payload, &exec); err != nil {
				panic(err)
			}
			request.Reply(true, nil)
			n.processes.Go(func() { n.run(exec.Command, channel) })
		}
	}
	if n.deaf {
		for range globals {
		}
	}
}

// run does what sshd does with a command.
func (n *testNode) run(command string, channel ssh.Channel) {
	defer channel.Close()
	if n.exec != nil {
		if status := n.exec(command, channel); status >= 0 {
			channel.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{uint32(status)}))
		}
		return
	}
	argv := append(append([]string(nil), n.shell...), command)
	if n.shell == nil {
		argv = []string{"/bin/sh", "-c", command}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = n.home
	cmd.Env = append([]string{"HOME=" + n.home, "PATH=/usr/bin:/bin", promptExit}, n.env...)
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		io.WriteString(channel.Stderr(), argv[0]+": No such file or directory\n")
		channel.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{1}))
		return
	}
	go func() {
		io.Copy(stdin, channel)
		stdin.Close()
		// A stopped process does not see its stdin end: what sshd leaves to
		// itself, a test may not leave behind.
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
			cancel()
		}
	}()
	err = cmd.Wait()
	var died *exec.ExitError
	if errors.As(err, &died) && died.Sys().(syscall.WaitStatus).Signaled() {
		name := map[syscall.Signal]string{syscall.SIGKILL: "KILL", syscall.SIGSEGV: "SEGV"}[died.Sys().(syscall.WaitStatus).Signal()]
		channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal      string
			Core        bool
			Error, Lang string
		}{Signal: name}))
		return
	}
	channel.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{uint32(cmd.ProcessState.ExitCode())}))
}

// testClient delivers the test binary.
func testClient(t *testing.T) *Client {
	t.Helper()
	c, err := New(Options{Home: t.TempDir(), SystemConfig: filepath.Join(t.TempDir(), "none"), AgentSocket: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// start bootstraps an agent on n within limit.
func (n *testNode) start(t *testing.T, limit time.Duration) (*Agent, *Trace, *Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	trace := &Trace{}
	agent, err := testClient(t).bootstrap(ctx, n.connect(t), "w1", trace)
	if agent != nil {
		t.Cleanup(func() { agent.Close() })
	}
	return agent, trace, err
}

// script writes an executable shell script.
func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
