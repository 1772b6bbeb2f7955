// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"preflight/facts"
)

// enough is enough time for an interpreter on a busy machine.
const enough = time.Minute

// TestHub connects to a server on this machine in every way that exists, and in some ways that
// fail.
func TestHub(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to go to the Hub by")
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was asked of it", r.Method, r.URL)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // hides the errors of handshakes that must fail
	server.StartTLS()
	t.Cleanup(server.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := proxying(t, "HTTP/1.1 200 Connection established\r\nVia: 1.1 site\r\n\r\n", server.Listener.Addr().String())
	asking := proxying(t, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "")
	strange := proxying(t, "SSH-2.0-OpenSSH_9.2p1\r\n\r\n", "")
	nobody := refusing(t)
	for _, c := range []struct {
		name string
		env  map[string]string
		want facts.Hub
	}{
		{"straight", nil, facts.Hub{}},
		{"nobody listens", map[string]string{"HF_ENDPOINT": "https://" + nobody}, facts.Hub{Failed: facts.HopConnect, Outcome: facts.PathRefused}},
		{"no such name", map[string]string{"HF_ENDPOINT": "https://" + strings.Repeat("x", 64) + ".invalid"}, facts.Hub{Failed: facts.HopResolve}},
		{"no address", map[string]string{"HF_ENDPOINT": "mirror"}, facts.Hub{Failed: facts.HopResolve, Error: "HF_ENDPOINT is not a web address"}},
		{"without TLS", map[string]string{"HF_ENDPOINT": plain.URL}, facts.Hub{}},
		{"a password", map[string]string{"HF_ENDPOINT": strings.Replace(plain.URL, "://", "://me:secret@", 1)}, facts.Hub{}},
		{"no TLS there", map[string]string{"HF_ENDPOINT": "https://" + plain.Listener.Addr().String()}, facts.Hub{Failed: facts.HopHandshake}},
		{"another's certificates", map[string]string{"REQUESTS_CA_BUNDLE": "", "SSL_CERT_FILE": ""}, facts.Hub{Failed: facts.HopTrust}},
		{"no certificates", map[string]string{"REQUESTS_CA_BUNDLE": ca + ".gone", "SSL_CERT_FILE": ca + ".gone"}, facts.Hub{Failed: facts.HopStore, Store: ca + ".gone"}},
		{"proxy", map[string]string{"HF_ENDPOINT": "https://example.com", "HTTPS_PROXY": "http://" + proxy}, facts.Hub{Proxy: proxy}},
		{"proxy in small letters, without a scheme", map[string]string{"HF_ENDPOINT": "https://example.com", "https_proxy": proxy}, facts.Hub{Proxy: proxy}},
		{"proxy that asks for a password", map[string]string{"HTTPS_PROXY": "http://" + asking}, facts.Hub{Proxy: asking, Failed: facts.HopProxy, Error: "407 Proxy Authentication Required"}},
		{"proxy that is none", map[string]string{"HTTPS_PROXY": "http://" + strange}, facts.Hub{Proxy: strange, Failed: facts.HopProxy}},
		{"proxy that nobody is", map[string]string{"HTTPS_PROXY": "http://" + nobody}, facts.Hub{Proxy: nobody, Failed: facts.HopConnect, Outcome: facts.PathRefused}},
		{"proxy of SOCKS", map[string]string{"HTTPS_PROXY": "socks5://" + proxy}, facts.Hub{Proxy: proxy, Failed: facts.HopProxy, Outcome: facts.PathUntried}},
		{"past the proxy", map[string]string{"HTTPS_PROXY": "http://" + nobody, "NO_PROXY": "127.0.0.1"}, facts.Hub{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"HF_ENDPOINT": server.URL, "REQUESTS_CA_BUNDLE": ca, "SSL_CERT_FILE": ca, "CURL_CA_BUNDLE": "", "SSL_CERT_DIR": ""}
			for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"} { // unset, because this machine may have its own values
				env[name], env[strings.ToLower(name)] = "", ""
			}
			for name, value := range c.env {
				env[name] = value
				if isProxy := strings.ToUpper(name) == name && strings.HasSuffix(name, "_PROXY"); isProxy {
					delete(env, strings.ToLower(name))
				}
			}
			h := Hub{Interpreter: python, Deadline: enough}
			for name, value := range env {
				h.Env = append(h.Env, facts.Setting{Name: name, Value: value})
			}
			got := h.Run(t.Context())
			if got.Problem != "" {
				t.Fatal(got.Problem)
			}
			if hub := got.Hub; hub.Failed != c.want.Failed || hub.Outcome != c.want.Outcome || hub.Proxy != c.want.Proxy || hub.Endpoint != strings.Replace(env["HF_ENDPOINT"], "me:secret@", "", 1) {
				t.Errorf("got %+v, want %+v", hub, c.want)
			}
			if c.want.Error != "" && got.Hub.Error != c.want.Error || (got.Hub.Error == "") != (c.want.Failed == "") {
				t.Errorf("it says %q, not %q", got.Hub.Error, c.want.Error)
			}
			if c.want.Store != "" && got.Hub.Store != c.want.Store {
				t.Errorf("it trusts by %s, not %s", got.Hub.Store, c.want.Store)
			}
		})
	}
}

// TestHubThroughItsOwnProxy checks that the password in the proxy's variable is sent to the proxy
// and nowhere else.
func TestHubThroughItsOwnProxy(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to go to the Hub by")
	}
	listener := listening(t)
	heard := make(chan string, 1)
	go func() {
		heard <- hear(listener, "HTTP/1.1 403 Forbidden\r\n\r\n")
	}()
	h := Hub{Interpreter: python, Deadline: enough, Env: []facts.Setting{
		{Name: "HF_ENDPOINT", Value: "https://example.com"}, {Name: "https_proxy", Value: "http://me:a%40b@" + listener.Addr().String()}, {Name: "no_proxy"}, {Name: "NO_PROXY"},
	}}
	got := h.Run(t.Context())
	if got.Hub.Failed != facts.HopProxy || got.Hub.Error != "403 Forbidden" || got.Hub.Proxy != listener.Addr().String() {
		t.Errorf("got %+v %s", got.Hub, got.Problem)
	}
	want := "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nProxy-Authorization: Basic bWU6YUBi\r\n\r\n" // the base64 text is me:a@b
	if asked := <-heard; asked != want {
		t.Errorf("the proxy was asked %q, not %q", asked, want)
	}
}

// TestHubInterpreter checks that an interpreter that does not start, or that crashes, gives no
// result for the Hub.
func TestHubInterpreter(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"/bin/true": "the interpreter", "/nonexistent/python": "no such file"} {
		if got := (Hub{Interpreter: path, Deadline: enough}).Run(t.Context()); !strings.Contains(got.Problem, want) || got.Hub != (facts.Hub{}) {
			t.Errorf("%s: %+v, want a problem with %q", path, got, want)
		}
	}
}

func listening(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// refusing returns an address at which nothing listens any more.
func refusing(t *testing.T) string {
	t.Helper()
	listener := listening(t)
	listener.Close()
	return listener.Addr().String()
}

// hear gives the next caller the answer. It returns what the caller sends up to an empty line.
func hear(listener net.Listener, answer string) string {
	call, err := listener.Accept()
	if err != nil {
		return err.Error()
	}
	defer call.Close()
	return exchange(call, answer)
}

func exchange(call net.Conn, answer string) string {
	var data strings.Builder
	one := make([]byte, 1)
	for !strings.HasSuffix(data.String(), "\r\n\r\n") {
		if _, err := call.Read(one); err != nil {
			break
		}
		data.Write(one)
	}
	_, _ = io.WriteString(call, answer)
	return data.String()
}

// proxying gives every caller the answer. If there is a target, it then connects the caller to the
// target.
func proxying(t *testing.T, answer, to string) string {
	t.Helper()
	listener := listening(t)
	go func() {
		for {
			call, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer call.Close()
				exchange(call, answer)
				if to == "" {
					return
				}
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, call) }()
				_, _ = io.Copy(call, server)
			}()
		}
	}()
	return listener.Addr().String()
}
