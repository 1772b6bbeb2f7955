// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"preflight/internal/hostsys"
	"preflight/remote"
)

// proxyGrace is how long a ProxyCommand's descendants may keep its standard error open after the
// command has been killed.
const proxyGrace = time.Second

// proxyConn is a connection through a ProxyCommand. Closing it kills the command and everything
// that it started.
type proxyConn struct {
	net.Conn
	command *exec.Cmd
	stderr  remote.Tail
	ended   <-chan struct{}
}

// startProxy runs the command as ssh does (ssh_proxy_connect in OpenSSH's sshconnect.c): with the
// user's shell, and with the connection as its standard input and output. The command is from the
// user's own ssh configuration.
func startProxy(shell, command string) (*proxyConn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := net.FileConn(ours) // conn has a duplicate of ours
	ours.Close()
	if err != nil {
		return nil, err
	}
	p := &proxyConn{Conn: conn, command: exec.Command(shell, "-c", "exec "+command)}
	p.stderr.Full = func() { conn.Close() }
	p.command.Stdin, p.command.Stdout, p.command.Stderr = theirs, theirs, &p.stderr
	p.command.WaitDelay = proxyGrace
	if p.ended, err = hostsys.Start(p.command); err != nil {
		conn.Close()
		return nil, err
	}
	return p, nil
}

// socketPair returns two connected sockets that no child inherits. Not every system can mark
// sockets close-on-exec atomically, so no fork may happen in between.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	syscall.CloseOnExec(pair[0])
	syscall.CloseOnExec(pair[1])
	return os.NewFile(uintptr(pair[0]), "proxy"), os.NewFile(uintptr(pair[1]), "proxy"), nil
}

func (p *proxyConn) Close() error {
	err := p.Conn.Close()
	select {
	case <-p.ended:
	default:
		// The command was not waited for yet, so the group ID is still its own.
		hostsys.KillGroup(p.command)
		<-p.ended
	}
	return err
}

// failure returns how the command ended, after its connection broke.
func (p *proxyConn) failure(err error) error {
	p.Close()
	if text := p.stderr.Text(); text != "" {
		return fmt.Errorf("the ProxyCommand ended (%v): %s", p.command.ProcessState, text)
	}
	return fmt.Errorf("the ProxyCommand ended (%v) and printed nothing: %w", p.command.ProcessState, plainError(err))
}
