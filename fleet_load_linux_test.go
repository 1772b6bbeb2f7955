package preflight

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"preflight/checks"
	"preflight/checks/fleettest"
	"preflight/facts"
	"preflight/fleet/agent"
	"preflight/hostfile"
	"preflight/hostsys"
	"preflight/launch"
	"preflight/probe"
	"preflight/remote"
	"preflight/remote/ssh"
	"preflight/testhosts"
)

// Of the long run: PREFLIGHT_LOAD_HOSTS=1000 PREFLIGHT_LOAD_RUNS=50 go test -run UnderLoad -timeout 0 -v .
var (
	loadHosts    = fromEnvironment("PREFLIGHT_LOAD_HOSTS", 60)
	loadRuns     = fromEnvironment("PREFLIGHT_LOAD_RUNS", 1)
	loadSpinners = fromEnvironment("PREFLIGHT_LOAD", 20) // processes that do nothing else than run
)

func init() {
	roles["spin"] = func([]string) error {
		for turns := 0; ; turns++ {
		}
	}
	roles["load-client"] = func(args []string) error { return loadClient(args[0], args[1], os.Stdout) }
}

// loadNetwork holds the addresses the hosts tell of. They must all be this
// machine's own, as `ip route add local 10.99.0.0/16 dev lo` makes them in a
// network namespace made for it.
const loadNetwork = "10.99.%d.%d"

func fromEnvironment(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// timely are the checks that may be wrong where somebody is too slow: none may say that a
// healthy node fails.
var timely = []string{"ssh-reach", "ssh-host-key", "ssh-login", "ssh-shell", "agent-start", "node-mesh", "path-mtu", "rendezvous", "clock-skew"}

// TestUnderLoad: of healthy hosts nothing is said to be wrong however busy this machine is, which is the
// launching machine and all nodes. Each run is a process of its own, in the network that
// TestInNetwork makes.
func TestUnderLoad(t *testing.T) {
	if !inNetwork(t) {
		return // it has run in one
	}
	recorded := fleettest.Healthy(4).Nodes[0].Facts
	hosts := make([]testhosts.Host, loadHosts)
	for i := range hosts {
		hosts[i].Exec = answerWith(recorded, i)
	}
	running := testhosts.Start(t, hosts...)
	list := filepath.Join(t.TempDir(), "hostfile")
	if err := os.WriteFile(list, []byte(running.Hostfile), 0o600); err != nil {
		t.Fatal(err)
	}
	for range loadSpinners {
		spinner := exec.Command(os.Args[0], "spin")
		ended, err := hostsys.Start(spinner)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = hostsys.KillGroup(spinner) // it ends in no other way
			<-ended
		}()
	}
	for n := range loadRuns {
		began := time.Now()
		client := exec.Command(os.Args[0], "load-client", running.Home, list)
		client.Stderr = os.Stderr
		text, err := client.Output()
		var seen underLoad
		if err = errors.Join(err, json.Unmarshal(text, &seen)); err != nil {
			t.Fatal(err)
		}
		load, _ := os.ReadFile("/proc/loadavg")
		t.Logf("run %d: %.1f s, load %.5s: of %d nodes %d reached, %d wrong, %d unknown %v", n+1, time.Since(began).Seconds(), load, len(hosts), seen.Reached, len(seen.Wrong), len(seen.Unknown), seen.sample())
		for _, wrong := range seen.Wrong[:min(len(seen.Wrong), 10)] {
			t.Errorf("run %d: %s", n+1, wrong)
		}
	}
}

// inNetwork is whether a test is in a network of its own. One that is not has been run in one then.
func inNetwork(t *testing.T) bool {
	if probe, err := net.Listen("tcp", fmt.Sprintf(loadNetwork, 1, 1)+":0"); err == nil {
		probe.Close()
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only root makes a network for it")
	}
	within := exec.Command("/bin/sh", "-c", `ip link set lo up && ip route add local 10.99.0.0/16 dev lo && exec "$@"`, "sh",
		os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "0")
	within.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	within.Stdout, within.Stderr = os.Stdout, os.Stderr
	if err := within.Run(); err != nil {
		t.Fatal(err)
	}
	return false
}

// underLoad is what was said of healthy hosts.
type underLoad struct {
	Reached        int
	Wrong, Unknown []string
}

func (u underLoad) sample() []string { return u.Unknown[:min(len(u.Unknown), 3)] }

// loadClient looks once, and says what is wrong.
func loadClient(home, list string, out io.Writer) error {
	hosts, _, err := hostfile.ReadFile(list, "")
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
	plan, err := NewPlan(context.Background(), Intent{Options: launch.Options{Hosts: hosts, Accelerator: "cuda", WorkDir: "/"}})
	if err != nil {
		return err
	}
	report := Run(context.Background(), Job{Plan: plan, Policy: checks.DefaultPolicy(), Remote: client, Timeout: timeout})
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
		if mesh := node.Mesh; mesh != nil && len(mesh.Failed) > 0 {
			seen.Wrong = append(seen.Wrong, fmt.Sprintf("%s: %+v", node.Name, mesh.Failed[0]))
		}
		if r := node.Rendezvous; r != nil && r.Failed != "" {
			seen.Wrong = append(seen.Wrong, strings.TrimSpace(fmt.Sprintf("%s: %s: %s %s", node.Name, r.Failed, r.Outcome, r.Error)))
		}
	}
	fmt.Fprintln(os.Stderr, "behind:", hostsys.Lost(), "stood still:", report.StoodStill)
	return json.NewEncoder(out).Encode(seen)
}

// answerWith is the i-th host, whose agent tells recorded facts, without
// starting a shell or a probe. What the hosts try among themselves is real.
func answerWith(recorded facts.Facts, i int) func(string, io.Reader, io.Writer, io.Writer) int {
	network := *recorded.Net
	network.Interfaces = slices.Clone(network.Interfaces)
	for at, link := range network.Interfaces {
		if !link.Loopback {
			network.Interfaces[at].Addresses = []string{fmt.Sprintf(loadNetwork, i/250, i%250+1) + "/16"}
		}
	}
	recorded.Net = &network
	methods := agent.Methods()
	methods["probe"] = func(_ context.Context, _ json.RawMessage, reply func(string, any) error) error {
		for _, section := range probe.Of(probe.Nodes) {
			var one facts.Facts
			one.Take(section, recorded)
			if err := reply(string(section), agent.Probed{Seen: one}); err != nil {
				return err
			}
		}
		return nil
	}
	return func(_ string, stdin io.Reader, stdout, _ io.Writer) int {
		in := bufio.NewReader(stdin)
		if _, err := in.ReadString('\n'); err != nil && !strings.Contains(err.Error(), "EOF") {
			return 1
		}
		if err := remote.Serve(context.Background(), in, stdout, methods); err != nil {
			return 1
		}
		return 0
	}
}
