// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/knownhosts"

	"preflight/internal/hostsys"
	"preflight/remote"
)

// nameServer replaces the system's name server for the duration of one test.
func nameServer(t *testing.T, dial func(ctx context.Context) error) {
	real := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = real })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return nil, dial(ctx)
	}}
}

func noServer(context.Context) error { return errors.New("no name server here") }

// withGetent returns a client on a machine with the given name sources and a getent that runs the
// script. asked is the path of a file that gets the arguments of getent.
func (p *person) withGetent(sources, script string) (c *Carrier, asked string) {
	p.t.Helper()
	asked = filepath.Join(p.home, "asked")
	program := fmt.Sprintf("#!/bin/sh\necho \"$LC_ALL $*\" >> %s\n%s\n", asked, script)
	if err := os.WriteFile(filepath.Join(p.home, "getent"), []byte(program), 0o700); err != nil {
		p.t.Fatal(err)
	}
	p.t.Setenv("PATH", p.home+":"+os.Getenv("PATH"))
	c = p.client(Options{})
	if err := os.MkdirAll(filepath.Join(p.home, "etc"), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.home, "etc", "nsswitch.conf"), []byte("hosts: "+sources+"\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	c.names = hostsys.NewNames(p.home)
	return c, asked
}

// ahosts is a command that prints getent's output for a name with two address families.
const ahosts = "printf '::1 STREAM w1.lan\\n::1 DGRAM\\n::1 RAW\\n127.0.0.1 STREAM\\n127.0.0.1 DGRAM\\n127.0.0.9 RAW\\n'"

// TestNameOfAModule: ssh resolves a name that only a glibc module knows, so preflight must resolve
// it as well.
func TestNameOfAModule(t *testing.T) {
	p := newPerson(t)
	nameServer(t, noServer)
	n := startNode(t, admits(p.key.PublicKey()))
	p.write("known_hosts", knownhosts.Line([]string{fmt.Sprintf("w1-of-ldap:%d", n.port)}, n.key.PublicKey())+"\n")
	p.write("config", fmt.Sprintf("Port %d\nAddressFamily inet\n", n.port))
	c, asked := p.withGetent("files sss dns", ahosts)
	client, trace, err := c.Dial(context.Background(), "w1-of-ldap")
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if trace.Address != "127.0.0.1" || strings.Contains(strings.Join(trace.OpenSSH, "\n"), "earlier address") {
		t.Errorf("connected to %q, with %q", trace.Address, trace.OpenSSH)
	}
	if text, _ := os.ReadFile(asked); string(text) != "C ahostsv4 -- w1-of-ldap\n" {
		t.Errorf("getent was started with %q", text)
	}
}

func TestNameThatIsUnknown(t *testing.T) {
	for name, test := range map[string]struct{ sources, script, words string }{
		"to the name server": {"files dns", ahosts, "no name server here"},
		"to a module":        {"files resolve [!UNAVAIL=return] dns", "exit 2", "no such host"},
		"getent is broken":   {"files sss", "exit 1", "getent: ended with exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t)
			nameServer(t, noServer)
			c, _ := p.withGetent(test.sources, test.script)
			e, _ := p.failed(c, "w1-of-ldap", 5*time.Second, remote.StageResolve, remote.NameUnknown, test.words)
			if !strings.Contains(e.Detail["resolver"], test.words) {
				t.Errorf("detail %v", e.Detail)
			}
		})
	}
}

func TestResolverThatDoesNotAnswerInTime(t *testing.T) {
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, test := range map[string]struct {
		server  func(context.Context) error
		sources string
	}{
		"name server": {silent, "files dns"},
		"getent":      {noServer, "files sss dns"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t)
			nameServer(t, test.server)
			c, _ := p.withGetent(test.sources, "exec sleep 1000")
			const words = "the resolver did not answer in time"
			e, _ := p.failed(c, "w1-of-ldap", 300*time.Millisecond, remote.StageResolve, remote.NameUnknown, words)
			if !strings.HasPrefix(e.Detail["resolver"], words) {
				t.Errorf("detail %v", e.Detail)
			}
		})
	}
}
