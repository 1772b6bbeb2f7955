// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"preflight"
	"preflight/agent"
	"preflight/checks"
	"preflight/facts"
	"preflight/fleet"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/probe"
	"preflight/remote"
	"preflight/remote/ssh"
	"preflight/testhosts"
	"preflight/testhosts/carriertest"
)

// roles maps the first argument of this test binary to other programs as which the binary can act.
// Benchmarks start the binary in these roles.
var roles = map[string]func(args []string) error{}

// TestMain lets this test binary act as the agent on the hosts of the fleets in these tests.
// preflight copies the binary to the hosts under another name.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := roles[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 1 || os.Args[1] != "agent" {
		os.Exit(withSharedHome(m))
	}
	os.Exit(agent.Main(os.Args[2:]))
}

// sharedHome is the home directory of most hosts in these tests, like an NFS home. This test binary
// is large, so preflight should deliver it only once.
var sharedHome string

// sharedPrograms is the directory of the programs that the tests build once and share.
var sharedPrograms string

func withSharedHome(m *testing.M) int {
	scratch, err := os.MkdirTemp("", "preflight-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(scratch)
	sharedHome, sharedPrograms = filepath.Join(scratch, "home"), filepath.Join(scratch, "programs")
	if err := errors.Join(os.Mkdir(sharedHome, 0o700), os.Mkdir(sharedPrograms, 0o755)); err != nil {
		panic(err)
	}
	return m.Run()
}

// leavesAtOnce is the environment that prevents an agent built with the race detector from sleeping
// for a second before it exits. The detector sleeps by default.
var leavesAtOnce = []string{"GORACE=atexit_sleep_ms=0"}

// warm delivers the binary to the shared home, so that the deadline of a run does not include the
// delivery.
func warm(t *testing.T) {
	t.Helper()
	hosts := testhosts.Start(t, testhosts.Host{Name: "first", Home: sharedHome})
	look, _ := preflight.Look(t.Context(), job(t, hosts, 2*time.Minute))
	if !look.Nodes[0].Reached {
		t.Fatalf("the first host is not reached: %+v", look.Nodes[0].SSH)
	}
}

// planned returns the plan of a launch from this machine.
func planned(t *testing.T, options launch.Options) preflight.Plan {
	t.Helper()
	plan, err := preflight.NewPlan(t.Context(), preflight.Intent{Options: options})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// job returns a job that reaches every host of a fleet.
func job(t *testing.T, running *testhosts.Fleet, timeout time.Duration) preflight.Job {
	t.Helper()
	hosts, _, err := hostfile.Parse(strings.NewReader(running.Hostfile), "hostfile", "")
	if err != nil {
		t.Fatal(err)
	}
	carrier, err := ssh.New(ssh.Options{Home: running.Home, SystemConfig: os.DevNull, AgentSocket: "none", Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	carriertest.Compress(t)
	client := remote.New(carrier, remote.Options{Timeout: timeout})
	t.Cleanup(func() { client.Close() })
	return preflight.Job{
		Plan:    planned(t, launch.Options{Hosts: hosts, Accelerator: "cpu", WorkDir: t.TempDir()}),
		Policy:  checks.DefaultPolicy(),
		Remote:  client,
		Timeout: timeout,
	}
}

func TestEverySectionIsSeenOrMissingWithAReason(t *testing.T) {
	hosts := testhosts.Start(t,
		testhosts.Host{Name: "w1"},
		testhosts.Host{Name: "w2", Fault: testhosts.Refuses},
		testhosts.Host{Name: "w3", Fault: testhosts.Noise("hello there")},
	)
	look, _ := preflight.Look(t.Context(), job(t, hosts, 30*time.Second))
	everySection := append(probe.Of(probe.Nodes), facts.SectionClock)
	for _, drill := range fleet.Drills {
		if !drill.Alone {
			everySection = append(everySection, drill.Section)
		}
	}
	for _, node := range look.Nodes {
		if node.SSH == nil {
			t.Errorf("%s: no facts about its login", node.Name)
		}
		for _, section := range everySection {
			if look.NotTried[section] != "" {
				continue
			}
			if node.Has(section) == (node.Missing[section] != "") {
				t.Errorf("%s: %s seen %v, missing %q: exactly one must hold", node.Name, section, node.Has(section), node.Missing[section])
			}
		}
		if reached := node.Name != "w2"; node.Reached != reached {
			t.Errorf("%s: reached %v", node.Name, node.Reached)
		}
	}
	if got := look.Nodes[1].SSH.Cause; got != string(remote.Refused) {
		t.Errorf("w2: cause %q", got)
	}
	if got := look.Nodes[2].SSH.Noise; !slices.Equal(got, []string{"hello there"}) {
		t.Errorf("w3: noise %q", got)
	}
}

// TestOneSickNodeCostsNobodyElse checks that a faulty node does not affect the other nodes, and
// that the run ends at the faulty node's own deadline.
func TestOneSickNodeCostsNobodyElse(t *testing.T) {
	// Use addresses as names, because the time for a name lookup is not part of this test.
	const healthy, sick, other = "192.0.2.1", "192.0.2.2", "192.0.2.3"
	warm(t)
	// The rows share the processors, and the race detector makes a run many times slower.
	began := time.Now()
	warm(t)
	deadline := 4*time.Second + 8*time.Since(began)
	for name, fault := range map[string]testhosts.Fault{
		"silent": testhosts.Silent, "exec ignored": testhosts.ExecIgnored, "swallows stdin": testhosts.SwallowsStdin,
		"freezes": testhosts.Freezes(100), "garbage": testhosts.Garbage, "floods": testhosts.Floods,
		"truncates": testhosts.Truncates(300), "killed": testhosts.Killed("KILL", 300),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the rows mostly wait
			hosts := testhosts.Start(t, testhosts.Host{Name: healthy, Home: sharedHome, Env: leavesAtOnce},
				testhosts.Host{Name: sick, Fault: fault, Home: sharedHome, Env: leavesAtOnce},
				testhosts.Host{Name: other, Home: sharedHome, Env: leavesAtOnce})
			job := job(t, hosts, deadline)
			// Skip the connections between nodes and the rehearsal with pdsh. They follow the
			// gathering of facts and have their own time limits.
			job.Policy.Skip = []string{"node-mesh", "path-mtu", "rendezvous", "ssh-between-nodes", "launcher-ready"}
			busy := func(node facts.Node) bool { return node.SSH.Cause == string(remote.HeadBusy) }
			var report checks.Report
			var took time.Duration
			for range 5 { // if this machine was too busy, a run says nothing about the nodes
				began := time.Now()
				report = preflight.Run(t.Context(), job)
				if took = time.Since(began); !slices.ContainsFunc(report.Nodes, busy) {
					break
				}
			}
			if took > deadline+time.Second {
				t.Errorf("the run took %v, the node had %v", took, deadline)
			}
			for i, reached := range []bool{true, false, true} {
				if node := report.Nodes[i]; node.Reached != reached {
					t.Errorf("%s: reached %v, %+v", node.Name, node.Reached, node.SSH)
				}
			}
			named := map[checks.Verdict][]string{}
			for _, finding := range report.Findings {
				if slices.Contains(finding.Nodes, sick) {
					named[finding.Verdict] = append(named[finding.Verdict], finding.Check)
				}
			}
			if len(named[checks.Fail]) != 1 {
				t.Errorf("one root cause, but %s has %v: %+v", sick, named, report.Nodes[1].SSH)
			}
			if report.ExitCode != 1 {
				t.Errorf("exit code %d", report.ExitCode)
			}
		})
	}
}

// TestHungSectionCostsItselfOnly checks that an agent gives up a section before preflight gives up
// the node, however much of the node's time the login took.
func TestHungSectionCostsItselfOnly(t *testing.T) {
	warm(t)
	hangs, slow := filepath.Join(t.TempDir(), "python"), filepath.Join(t.TempDir(), "shell")
	for path, script := range map[string]string{hangs: "exec sleep 60", slow: `sleep 1; exec /bin/sh "$@"`} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	hosts := testhosts.Start(t, testhosts.Host{Name: "w1", Home: sharedHome, Shell: slow})
	job := job(t, hosts, 8*time.Second)
	job.Plan.Prediction.Interpreter = hangs
	look, _ := preflight.Look(t.Context(), job)
	node := look.Nodes[0]
	if !node.Reached {
		t.Fatalf("the node is given up for one section: %+v", node.SSH)
	}
	if node.Python == nil || node.Python.Problem == "" {
		t.Errorf("python %+v, missing %q: no error says that it hangs", node.Python, node.Missing[facts.SectionPython])
	}
	if node.Host == nil || node.Net == nil {
		t.Errorf("other sections are missing too: %v", node.Missing)
	}
}

func TestInterruptedRunTellsWhatItKnows(t *testing.T) {
	warm(t)
	hosts := testhosts.Start(t, testhosts.Host{Name: "w1", Home: sharedHome}, testhosts.Host{Name: "w2", Fault: testhosts.Silent})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	job := job(t, hosts, time.Minute)
	job.Progress = func(event fleet.Event) {
		if event.Node == "w1" && event.Phase == fleet.Looking && event.Step == fleet.Ended {
			cancel()
		}
	}
	report := preflight.Run(ctx, job)
	if !report.Interrupted || report.ExitCode == 0 {
		t.Errorf("interrupted %v, exit code %d", report.Interrupted, report.ExitCode)
	}
	if !report.Nodes[0].Reached || report.Nodes[0].Host == nil {
		t.Error("the facts of w1 are lost")
	}
	if report.Nodes[1].Reached {
		t.Error("w2 was never reached")
	}
}

// TestNothingIsLeftBehind checks that no goroutine outlives a run over faulty nodes.
func TestNothingIsLeftBehind(t *testing.T) {
	warm(t)
	hosts := testhosts.Start(t, testhosts.Host{Name: "w1", Home: sharedHome}, testhosts.Host{Name: "w2", Fault: testhosts.Silent},
		testhosts.Host{Name: "w3", Fault: testhosts.Freezes(100), Home: sharedHome}, testhosts.Host{Name: "w4", Fault: testhosts.Floods, Home: sharedHome})
	j := job(t, hosts, 2*time.Second)
	preflight.Run(t.Context(), j)
	j.Remote.Close()
	ours := func() (stacks []string) {
		text := make([]byte, 4<<20)
		for stack := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
			if strings.Contains(stack, "preflight/remote.") || strings.Contains(stack, "preflight/probe.") {
				stacks = append(stacks, stack)
			}
		}
		return stacks
	}
	for until := time.Now().Add(3 * time.Second); len(ours()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("still running:\n%s", strings.Join(ours(), "\n\n"))
		}
	}
}
