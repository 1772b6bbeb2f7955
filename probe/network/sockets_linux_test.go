// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"

	"preflight/probe/machine"
)

// TestListeningByKernel checks that the kernel's answer lists the same sockets as /proc/net/tcp.
func TestListeningByKernel(t *testing.T) {
	var ports []int
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "0.0.0.0:0", ":0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Log("NOT CHECKED:", err)
			continue
		}
		defer listener.Close()
		port := listener.Addr().(*net.TCPAddr).Port
		ports = append(ports, port)
		call, err := net.Dial("tcp", listener.Addr().String()) // this is a connection and not a listener
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
	}
	ours := func(found []*socket, err error) (of []socket) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range ports {
			for _, s := range found {
				if s.Port == port {
					of = append(of, *s)
				}
			}
		}
		return of
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	want := ours(listening(machine.Options{Root: "/"}, proc))
	got := ours(listeningByKernel())
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(socket{})); diff != "" || len(got) != len(ports) {
		t.Errorf("of %d listeners (-file +kernel)\n%s", len(ports), diff)
	}
	if _, err := parseDiagnosis(slices.Repeat([]byte{2}, sizeOfDiagnosis-1)); err == nil {
		t.Error("a message that was cut short is read")
	}
}
