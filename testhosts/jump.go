package testhosts

import (
	"context"
	"io"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// forward connects a client of a jump host to a host behind it. Nothing
// leaves the process, so a host behind another can be reached no other way.
func (h *host) forward(ctx context.Context, channel ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Originator string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(channel.ExtraData(), &to); err != nil {
		h.fleet.t.Errorf("testhosts: %s: malformed direct-tcpip: %v", h.Name, err)
		channel.Reject(ssh.ConnectionFailed, "malformed")
		return
	}
	target := h.fleet.byName[to.Host]
	switch {
	case target == nil:
		channel.Reject(ssh.ConnectionFailed, "Name or service not known")
		return
	case target.Behind != h.Name:
		channel.Reject(ssh.Prohibited, "administratively prohibited")
		return
	case target.absent || int(to.Port) != h.fleet.Port:
		channel.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	case target.control != nil: // its kernel answers nobody
		<-ctx.Done()
		return
	}
	client, requests, err := channel.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests) // ends with the channel
	h.forwards.Add(1)
	near, far := net.Pipe()
	stop := context.AfterFunc(ctx, func() { near.Close() })
	defer stop()
	h.fleet.running.Go(func() { target.serve(far) })
	var pumps sync.WaitGroup
	pumps.Go(func() { io.Copy(near, client); near.Close() })
	pumps.Go(func() { io.Copy(client, near); client.Close() })
	pumps.Wait()
}
