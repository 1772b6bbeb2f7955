// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"preflight"
	"preflight/checks"
	"preflight/facts"
	"preflight/fleet"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/remote"
	"preflight/remote/ssh"
	"preflight/report"
)

// hostsOfProcess is the maximum number of hosts in one process. Each host uses one file descriptor.
const hostsOfProcess = 1500

func init() {
	roles["bench-fleet"] = func(args []string) error { return benchFleet(args[0], number(args[1])) }
	roles["bench-hosts"] = func(args []string) error { return benchHosts(args[0], number(args[1]), args[2] == "real") }
	roles["bench-head"] = func(args []string) error { return benchHead(args[0], args[1]) }
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// measured holds the resources that one run used. It covers only the launching machine, which is a
// separate process.
type measured struct {
	Seconds    float64 `json:"seconds"`
	CPU        float64 `json:"cpu"`       // seconds of user and system time
	Peak       int     `json:"peak"`      // peak memory (VmHWM) in KiB
	Allocated  uint64  `json:"allocated"` // bytes
	Objects    uint64  `json:"objects"`   //
	Goroutines int     `json:"goroutines"`
	Report     int64   `json:"report"` // size of the JSON report in bytes
	Sent       int64   `json:"sent"`   // bytes of ssh to and from the nodes
	Received   int64   `json:"received"`
}

// BenchmarkFleet measures one process that checks up to 10,000 hosts, with a real login to each
// host, and writes the report as text and JSON. Other processes simulate the hosts. The processor
// time for each host should not grow with the number of hosts. The benchmark needs root for its own
// network and host names.
func BenchmarkFleet(b *testing.B) {
	for _, size := range []int{1000, 2000, 5000, 10000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				got := measure(b, size)
				for unit, value := range map[string]float64{
					"s": got.Seconds, "ms-cpu/host": got.CPU * 1000 / float64(size), "MiB-peak": float64(got.Peak) / 1024,
					"KiB-allocated/host": float64(got.Allocated) / float64(size) / 1024, "objects/host": float64(got.Objects) / float64(size),
					"goroutines/host": float64(got.Goroutines) / float64(size), "B-sent/host": float64(got.Sent) / float64(size),
					"B-received/host": float64(got.Received) / float64(size), "MiB-json": float64(got.Report) / (1 << 20),
				} {
					b.ReportMetric(value, unit)
				}
			}
		})
	}
}

func measure(b *testing.B, size int) (got measured) {
	out, err := inOwnNetwork("bench-fleet", b.TempDir(), strconv.Itoa(size)).Output()
	if errors.Is(err, syscall.EPERM) {
		b.Skip("NOT RUN: a network of its own needs root: ", err)
	}
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		b.Fatal(err)
	}
	return got
}

// inOwnNetwork returns a command that runs this binary in a role, with its own network and host
// names.
func inOwnNetwork(role ...string) *exec.Cmd {
	fleet := exec.Command(os.Args[0], role...)
	fleet.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	fleet.Stderr = os.Stderr
	return fleet
}

// raiseHosts starts count hosts, in processes that end when this process ends. This process must be
// in its own network.
func raiseHosts(scratch string, count, ofProcess int, drills string) (*modelled, error) {
	if err := errors.Join(enterOwnNetwork(scratch, count), benchHome(scratch, count)); err != nil {
		return nil, err
	}
	shared := filepath.Join(scratch, "shared")
	known, err := openModelled(shared)
	if err != nil {
		return nil, err
	}
	for range (count + ofProcess - 1) / ofProcess {
		hosts := exec.Command(os.Args[0], "bench-hosts", shared, strconv.Itoa(count), drills)
		hosts.Env = append(os.Environ(), "GOGC=400")
		hosts.Stderr = os.Stderr
		hosts.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		stdout, err := hosts.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := hosts.Start(); err != nil {
			return nil, err
		}
		if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
			return nil, fmt.Errorf("the hosts did not come up: %w", err)
		}
	}
	return known, nil
}

// benchFleet starts the hosts and runs preflight over them.
func benchFleet(scratch string, count int) error {
	known, err := raiseHosts(scratch, count, hostsOfProcess, "modelled")
	if err != nil {
		return err
	}
	head := exec.Command(os.Args[0], "bench-head", scratch, filepath.Join(scratch, "hostfile"))
	head.Stderr = os.Stderr
	out, err := head.Output()
	if err != nil {
		return err
	}
	var got measured
	if err := json.Unmarshal(out, &got); err != nil {
		return err
	}
	used := head.ProcessState
	got.CPU = (used.UserTime() + used.SystemTime()).Seconds()
	got.Sent, got.Received = known.received.Load(), known.sent.Load()
	return json.NewEncoder(os.Stdout).Encode(got)
}

// benchHead is the measured process. If PROFILES names a directory, benchHead writes profiles into
// it: of the processor, of the heap, and of the goroutines while all agents run.
func benchHead(home, list string) error {
	profiles := os.Getenv("PROFILES")
	if profiles != "" {
		file, err := os.Create(filepath.Join(profiles, "cpu"))
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	hosts, _, err := hostfile.ReadFile(list, "")
	if err != nil {
		return err
	}
	began := time.Now()
	carrier, err := ssh.New(ssh.Options{Home: home, SystemConfig: os.DevNull, AgentSocket: "none"})
	if err != nil {
		return err
	}
	client := remote.New(carrier, remote.Options{Nodes: len(hosts), Timeout: 5 * time.Minute})
	defer client.Close()
	plan, err := preflight.NewPlan(context.Background(), preflight.Intent{Options: launch.Options{Hosts: hosts, Accelerator: "cuda", WorkDir: "/"}})
	if err != nil {
		return err
	}
	var goroutines atomic.Int64
	seen := preflight.Run(context.Background(), preflight.Job{
		Plan: plan, Policy: checks.DefaultPolicy(), Remote: client, Timeout: 5 * time.Minute,
		Progress: func(e fleet.Event) {
			if e.Step != fleet.Ended || e.Node != "" || e.Phase != fleet.Looking {
				return
			}
			goroutines.Store(int64(runtime.NumGoroutine()))
			if profiles != "" {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				runtime.GC()
				runtime.ReadMemStats(&after)
				fmt.Fprintf(os.Stderr, "%d nodes are there: heap %d KiB, of it live %d, stacks %d, from the system %d\n", len(hosts), before.HeapAlloc>>10, after.HeapAlloc>>10, after.StackInuse>>10, after.Sys>>10)
				for _, name := range []string{"heap", "goroutine"} {
					if file, err := os.Create(filepath.Join(profiles, name)); err == nil {
						_ = pprof.Lookup(name).WriteTo(file, 0)
						file.Close()
					}
				}
			}
		},
	})
	var text bytes.Buffer
	whole, err := os.Create(filepath.Join(home, "report.json"))
	if err != nil {
		return err
	}
	defer whole.Close()
	if err := errors.Join(report.Text(&text, seen, report.Style{Width: 100}), report.JSON(whole, seen)); err != nil {
		return err
	}
	size, err := whole.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if profiles != "" {
		_ = os.WriteFile(filepath.Join(profiles, "text"), text.Bytes(), 0o644)
	}
	got := measured{Seconds: time.Since(began).Seconds(), Goroutines: int(goroutines.Load()), Report: size}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	got.Allocated, got.Objects = memory.TotalAlloc, memory.Mallocs
	if got.Peak, err = peakMemory(); err != nil {
		return err
	}
	if err := healthy(seen); err != nil {
		_, _ = io.Copy(os.Stderr, &text)
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// healthy returns nil if every node has reported everything and has no problem. Problems of the
// launching machine are ignored, because it lacks all programs of a launch.
func healthy(seen checks.Report) error {
	for _, node := range seen.Nodes {
		called := 1 + facts.SampledPeers
		if len(seen.Nodes) <= facts.FullMesh {
			called = len(seen.Nodes)
		}
		switch {
		case !node.Reached || len(node.Missing) > 0:
			return fmt.Errorf("%s: reached %v, missing %v, %+v", node.Name, node.Reached, node.Missing, node.SSH)
		case len(node.Mesh.Failed) > 0 || len(node.Mesh.Reached) != called:
			return fmt.Errorf("%s: reached %d peers, failed %+v", node.Name, len(node.Mesh.Reached), node.Mesh.Failed)
		case node.Rendezvous.Failed != "":
			return fmt.Errorf("%s: the rendezvous failed: %+v", node.Name, node.Rendezvous)
		}
	}
	for _, f := range seen.Findings {
		if slices.ContainsFunc(f.Nodes, func(name string) bool { return strings.HasPrefix(name, "w") }) {
			return fmt.Errorf("a healthy fleet is found fault with: %+v", f)
		}
	}
	return nil
}

// peakMemory returns the peak memory of this process in KiB.
func peakMemory() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	return strconv.Atoi(strings.Fields(after)[0])
}
