// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cpu returns the CPU time that this process has used.
func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkMesh makes 128 nodes call each other. Each node is a separate process with its own
// loopback address. That is the largest fleet in which all nodes call each other. In a network
// namespace whose loopback has an MTU of 1500, a call is like a call on a network: `unshare -n sh
// -c 'ip link set lo mtu 1500 up && go test -bench …'`.
func BenchmarkMesh(b *testing.B) {
	const nodes = 128
	orders, answers := make([]*json.Encoder, nodes), make([]*json.Decoder, nodes)
	peers := make([]Peer, nodes)
	for i := range nodes {
		peers[i] = Peer{Name: fmt.Sprintf("w%d", i), Address: fmt.Sprintf("127.1.0.%d", i+1)}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), asNode+"=1", "GOMAXPROCS=1", "GOGC=off")
		cmd.Stderr = os.Stderr
		in, inErr := cmd.StdinPipe()
		out, outErr := cmd.StdoutPipe()
		if inErr != nil || outErr != nil {
			b.Fatal(inErr, outErr)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { in.Close(); cmd.Wait() })
		orders[i], answers[i] = json.NewEncoder(in), json.NewDecoder(out)
	}
	do := func(i int, order map[string]any, answer any) {
		if err := orders[i].Encode(order); err != nil {
			b.Fatal(err)
		}
		if err := answers[i].Decode(answer); err != nil {
			b.Fatal(err)
		}
	}
	for i := range nodes {
		var there []Listening
		do(i, map[string]any{"Listen": Listen{Token: "token", Node: peers[i].Name, Addresses: []string{peers[i].Address}}}, &there)
		peers[i].Ports = there[0].Ports
	}
	used := func() (all time.Duration) {
		for i := range nodes {
			var own time.Duration
			do(i, map[string]any{"CPU": true}, &own)
			all += own
		}
		return all
	}
	failed := 0
	before := used()
	for b.Loop() {
		var all sync.WaitGroup
		var mu sync.Mutex
		for i := range nodes {
			all.Go(func() {
				var answer struct {
					Reached map[string]float64
					Failed  []any
				}
				do(i, map[string]any{"Calls": Calls{Deadline: callsTime, Token: "token", Node: peers[i].Name, Peers: peers}}, &answer)
				mu.Lock()
				defer mu.Unlock()
				failed += nodes - len(answer.Reached)
			})
		}
		all.Wait()
	}
	b.ReportMetric((used()-before).Seconds()*1000/float64(b.N), "ms-cpu/op")
	b.ReportMetric(float64(failed)/float64(b.N), "failed/op")
}
