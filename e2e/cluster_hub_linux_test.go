// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// hubStandIn serves TLS with a key and certificate from one file, and prints a line when it
// listens. It answers no request.
const hubStandIn = `
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/root/hub.pem")
server = socket.create_server(("", 8443))
print("ready", flush=True)
while True:
    call, _ = server.accept()
    try:
        call.settimeout(5)
        call = context.wrap_socket(call, server_side=True)
        print("%r" % call.recv(100), flush=True)
    except OSError:
        pass
    call.close()
`

// certified returns a key and a self-signed certificate for a name, and the certificate alone.
func certified(t *testing.T, name string) (both, certificate []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true}
	signed, err := x509.CreateCertificate(rand.Reader, &of, &of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), certificate...), certificate
}

// TestHub makes nodes that lack a model connect to a Hub. The launching machine runs a stand-in for
// the Hub.
func TestHub(t *testing.T) {
	cluster := raise(t, "hub")
	both, certificate := certified(t, cluster.Head.Name)
	if err := cluster.Head.WriteFile("/root/hub.pem", both, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Put("/root/ca.pem", certificate, 0o644); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	hub := cluster.Head.Command(t.Context(), "python3", "-c", hubStandIn)
	out, in := io.Pipe()
	hub.Stdout = io.MultiWriter(&said, in)
	if err := hub.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	defer func() {
		_ = hub.Process.Kill()
		_ = hub.Wait()
		if told := strings.ReplaceAll(strings.TrimPrefix(said.String(), "ready\n"), "b''\n", ""); told != "" {
			t.Errorf("the Hub received %s", told)
		}
	}()
	endpoint := fmt.Sprintf("HF_ENDPOINT=https://%s:8443\n", cluster.Head.Name)
	const trusted = "REQUESTS_CA_BUNDLE=/root/ca.pem\nSSL_CERT_FILE=/root/ca.pem\n"
	everybody := "fail hub-reach [w1 w2 w3 w4]"
	for _, tt := range []struct {
		name  string
		env   string // contents of .deepspeed_env
		where string
		plant plant
		want  []string
		says  string
	}{
		{"healthy", endpoint + trusted, "", nil, []string{}, ""},
		{"a firewall that drops one node's calls", endpoint + trusted, "head", func(n *testhosts.Node) (testhosts.Undo, error) {
			return n.DropFrom(cluster.Nodes[2], "8443")
		}, []string{"fail hub-reach [w3]"}, "a firewall drops the connections; w1, which has rank 0, can"},
		{"a certificate that nobody trusts", endpoint, "", nil, []string{everybody}, "does not trust the certificate"},
		{"nobody listens", strings.ReplaceAll(endpoint, "8443", "8444") + trusted, "", nil, []string{everybody}, "no server listens there"},
		{"told not to ask", endpoint + "HF_HUB_OFFLINE=1\n", "", nil, []string{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := cluster.Head.WriteFile("/root/.deepspeed_env", []byte(tt.env), 0o644); err != nil {
				t.Fatal(err)
			}
			if tt.plant != nil {
				plantOn(t, cluster, tt.where, tt.plant)
			}
			cmd := cluster.OnHead(t.Context(), binary(t), "--accelerator", "cpu", "--python", "/usr/bin/python3", "--format", "json", "--only", "hub-reach", "--dry-run",
				"--", "deepspeed", "--hostfile", testhosts.HostfilePath, "train.py", "--model", "org/model")
			findings := reported(t, cmd).Findings
			if diff := cmp.Diff(tt.want, short(findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if len(findings) > 0 && !strings.Contains(findings[0].Summary, tt.says) {
				t.Errorf("it says %q, not %q: %+v", findings[0].Summary, tt.says, findings[0])
			}
		})
	}
}
