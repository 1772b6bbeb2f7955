package testhosts

import (
	"context"
	"io"

	"golang.org/x/crypto/ssh"
)

// execAnswer is what a host does when a command is asked for.
type execAnswer int

const (
	runs    execAnswer = iota
	refuses            // says no
	ignores            // says nothing, ever
)

// session is one session channel on its way to running one command.
type session struct {
	*host
	ctx     context.Context // ends with the connection
	conn    *valve
	channel ssh.Channel
	stdout  io.Writer
	pty     bool
	ended   bool // how it ended has been said
}

// serveSession answers the requests of one session. As in OpenSSH a session
// runs one command; asking for a shell or a subsystem is unexpected here.
func (h *host) serveSession(ctx context.Context, conn *valve, open ssh.NewChannel) {
	channel, requests, err := open.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{host: h, ctx: ctx, conn: conn, channel: channel, stdout: channel}
	done := make(chan struct{})
	started := false
	for {
		select {
		case <-done:
			return
		case request, ok := <-requests:
			if !ok {
				cancel()
				if started {
					<-done
				}
				return
			}
			command, exec := s.answer(request)
			if exec && !started {
				started = true
				go func() {
					defer close(done)
					h.run(s, command)
				}()
			}
		}
	}
}

// answer replies to one request and reports the command when it was an exec.
func (s *session) answer(request *ssh.Request) (command string, exec bool) {
	accept := false
	switch request.Type {
	case "exec":
		s.execs.Add(1)
		var payload struct{ Command string }
		if err := ssh.Unmarshal(request.Payload, &payload); err != nil {
			s.fleet.t.Errorf("testhosts: %s: malformed exec: %v", s.Name, err)
			break
		}
		if s.onExec == ignores {
			return "", false
		}
		command, exec, accept = payload.Command, s.onExec == runs, s.onExec == runs
	case "env": // sshd takes what AcceptEnv lists, which is nothing here
	case "pty-req":
		s.pty, accept = true, true
	case "signal", "window-change", "keepalive@openssh.com":
	default:
		s.fleet.t.Errorf("testhosts: %s: unexpected session request %q", s.Name, request.Type)
	}
	if request.WantReply {
		request.Reply(accept, nil)
	}
	return command, exec
}

// exit says the command ended with this status.
func (s *session) exit(status int) {
	s.end("exit-status", struct{ Status uint32 }{uint32(status)})
}

// exitBySignal says a signal ended the command; the name comes without SIG.
func (s *session) exitBySignal(name string) {
	s.end("exit-signal", struct {
		Signal  string
		Core    bool
		Message string
		Lang    string
	}{Signal: name})
}

func (s *session) end(request string, payload any) {
	if s.ended {
		return
	}
	s.ended = true
	s.channel.SendRequest(request, false, ssh.Marshal(payload))
}
