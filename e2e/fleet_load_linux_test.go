// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"preflight"
	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/launch"
	"preflight/remote"
	"preflight/remote/ssh"
)

// Command for a long run: PREFLIGHT_LOAD_HOSTS=1000 PREFLIGHT_LOAD_RUNS=50 go test -run UnderLoad
// -timeout 0 -v .
var (
	loadHosts    = fromEnvironment("PREFLIGHT_LOAD_HOSTS", 60)
	loadRuns     = fromEnvironment("PREFLIGHT_LOAD_RUNS", 1)
	loadSpinners = fromEnvironment("PREFLIGHT_LOAD", 20) // number of processes that only use processor time
)

func init() {
	roles["spin"] = func([]string) error {
		for turns := 0; ; turns++ {
		}
	}
	roles["load-fleet"] = func(args []string) error { return loadFleet(args[0]) }
	roles["load-client"] = func(args []string) error { return loadClient(args[0], os.Stdout) }
}

// hostsOfLoad is the number of hosts with real drills in one process. Each of these hosts uses
// about twenty file descriptors.
const hostsOfLoad = 250

func fromEnvironment(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// timely lists the checks that could give a wrong result on a slow machine. None of them may report
// that a healthy node fails.
var timely = []string{"ssh-reach", "ssh-host-key", "ssh-login", "ssh-shell", "agent-start", "node-mesh", "path-mtu", "rendezvous", "clock-skew"}

// TestUnderLoad checks healthy hosts while this machine is busy. This machine is the launching
// machine and all nodes. preflight must report no problem. The drills between the hosts are real,
// but the hosts' facts are invented. Each run is a separate process.
func TestUnderLoad(t *testing.T) {
	fleet := inOwnNetwork("load-fleet", t.TempDir())
	out, err := fleet.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.Start(); errors.Is(err, syscall.EPERM) {
		t.Skip("NOT RUN: a separate network needs root: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	runs := json.NewDecoder(out)
	for n := range loadRuns {
		began := time.Now()
		var seen underLoad
		if err := runs.Decode(&seen); err != nil {
			t.Error(err)
			break
		}
		load, _ := os.ReadFile("/proc/loadavg")
		t.Logf("run %d: %.1f s, load %.5s: of %d nodes %d reached, %d wrong, %d unknown %v", n+1, time.Since(began).Seconds(), load, loadHosts, seen.Reached, len(seen.Wrong), len(seen.Unknown), seen.sample())
		for _, wrong := range seen.Wrong[:min(len(seen.Wrong), 10)] {
			t.Errorf("run %d: %s", n+1, wrong)
		}
	}
	if err := fleet.Wait(); err != nil {
		t.Error(err)
	}
}

// loadFleet starts the hosts and the load, and runs preflight.
func loadFleet(scratch string) error {
	if _, err := raiseHosts(scratch, loadHosts, hostsOfLoad, "real"); err != nil {
		return err
	}
	for range loadSpinners {
		spinner := exec.Command(os.Args[0], "spin")
		spinner.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // the spinner never ends by itself
		if err := spinner.Start(); err != nil {
			return err
		}
	}
	for range loadRuns {
		client := exec.Command(os.Args[0], "load-client", scratch)
		client.Stdout, client.Stderr = os.Stdout, os.Stderr
		if err := client.Run(); err != nil {
			return err
		}
	}
	return nil
}

// underLoad is the result of runs over healthy hosts.
type underLoad struct {
	Reached        int
	Wrong, Unknown []string
}

func (u underLoad) sample() []string { return u.Unknown[:min(len(u.Unknown), 3)] }

// loadClient runs preflight once and prints the problems that it reports.
func loadClient(home string, out io.Writer) error {
	hosts, _, err := hostfile.ReadFile(filepath.Join(home, "hostfile"), "")
	if err != nil {
		return err
	}
	const timeout = 60 * time.Second
	carrier, err := ssh.New(ssh.Options{Home: home, SystemConfig: os.DevNull, AgentSocket: "none", Timeout: timeout})
	if err != nil {
		return err
	}
	client := remote.New(carrier, remote.Options{Timeout: timeout, Nodes: len(hosts)})
	defer client.Close()
	plan, err := preflight.NewPlan(context.Background(), preflight.Intent{Options: launch.Options{Hosts: hosts, Accelerator: "cuda", WorkDir: "/"}})
	if err != nil {
		return err
	}
	report := preflight.Run(context.Background(), preflight.Job{Plan: plan, Policy: checks.DefaultPolicy(), Remote: client, Timeout: timeout})
	var seen underLoad
	for _, f := range report.Findings {
		if slices.Contains(timely, f.Check) && (f.Verdict == checks.Fail || f.Verdict == checks.Warn) {
			seen.Wrong = append(seen.Wrong, fmt.Sprintf("%s: %s of %s: %s; %s", f.Check, f.Verdict, hostfile.Fold(f.Nodes), f.Summary, f.Got))
		}
	}
	for _, node := range report.Nodes {
		if node.Reached {
			seen.Reached++
		}
		for _, section := range slices.Sorted(maps.Keys(node.Missing)) {
			seen.Unknown = append(seen.Unknown, fmt.Sprintf("%s: %s: %s", node.Name, section, node.Missing[section]))
		}
		if mesh := node.Mesh; mesh != nil {
			for _, path := range mesh.Failed {
				told := fmt.Sprintf("%s: %+v", node.Name, path)
				if path.Outcome == facts.PathUntried {
					seen.Unknown = append(seen.Unknown, told)
				} else {
					seen.Wrong = append(seen.Wrong, told)
				}
			}
		}
		if r := node.Rendezvous; r != nil && r.Failed != "" {
			seen.Wrong = append(seen.Wrong, strings.TrimSpace(fmt.Sprintf("%s: %s: %s %s", node.Name, r.Failed, r.Outcome, r.Error)))
		}
	}
	fmt.Fprintln(os.Stderr, "behind:", hostsys.Late(), "stood still:", report.StoodStill)
	return json.NewEncoder(out).Encode(seen)
}
