// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"preflight/facts"
	"preflight/probe/machine"
)

// TestWatch checks what Look sees of a real process that behaves as a rank: the bytes that its
// connections carry, the pipe from which it reads, and what NCCL's RAS service answers there.
func TestWatch(t *testing.T) {
	if os.Getenv("BE_A_RANK") != "" {
		beRank(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWatch$")
	cmd.Env = append(os.Environ(), "BE_A_RANK=1", "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1", "NCCL_RAS_ADDR=127.0.0.1:")
	listener, err := net.Listen("tcp", "127.0.0.1:0") // finds a free port
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env[len(cmd.Env)-1] += fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
	listener.Close()
	in, err := cmd.StdinPipe() // the rank ends when it is closed
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q: %v", line, err)
	}
	seen, err := Look(t.Context(), machine.Options{}, 0, nil, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(seen.Processes, func(p facts.JobProcess) bool { return p.PID == cmd.Process.Pid })
	if at < 0 {
		t.Fatalf("the rank is not seen: %+v", seen.Processes)
	}
	w := seen.Processes[at].Watch
	if w == nil || len(w.Flows) < 2 || w.Flows[0].Remote != "127.0.0.1" || w.Flows[0].Bytes == 0 || w.Flows[len(w.Flows)-1].Bytes != 0 {
		t.Errorf("of its connections: %+v", w)
	}
	if w != nil && w.Flows[len(w.Flows)-1].Unread != len("unread") && w.Flows[len(w.Flows)-2].Unread != len("unread") {
		t.Errorf("no data waits to be read: %+v", w.Flows)
	}
	if w != nil && w.CPU > 5 {
		t.Errorf("%v CPUs", w.CPU)
	}
	if seen.NCCL == nil || len(seen.NCCL.Behind) != 1 || seen.NCCL.Moved == nil || *seen.NCCL.Moved {
		t.Errorf("NCCL: %+v", seen.NCCL)
	}
}

// beRank exchanges data over one connection to itself and leaves data unread in another one. It also
// answers as NCCL's RAS service.
func beRank(t *testing.T) {
	service, err := net.Listen("tcp", os.Getenv("NCCL_RAS_ADDR"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := service.Accept()
			if err != nil {
				return
			}
			go serve(conn, false, mismatch(42, 41))
		}
	}()
	pair := func() (net.Conn, net.Conn) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		near, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return near, far
	}
	near, far := pair()
	go io.Copy(io.Discard, far)
	go func() {
		for {
			near.Write(make([]byte, 1000))
			time.Sleep(10 * time.Millisecond)
		}
	}()
	other, unread := pair()
	fmt.Fprint(other, "unread")
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	unread.Close()
}
