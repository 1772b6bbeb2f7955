package preflight

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"preflight/checks"
	"preflight/checks/fleettest"
	"preflight/facts"
	"preflight/fleet/agent"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/probe"
	"preflight/remote"
	"preflight/remote/ssh"
	"preflight/testhosts"
)

// benchNetwork holds the addresses the hosts tell of. They must all be this
// machine's own, as `ip route add local 10.99.0.0/16 dev lo` makes them in a
// network namespace made for it.
const benchNetwork = "10.99.%d.%d"

// BenchmarkFleet looks at up to a thousand in-process hosts from a process of its
// own, so that its memory and processor time are the launching machine's
// alone: ns/op is the wall time of one run, which should grow with the number
// of hosts and no faster. The hosts tell recorded facts, and call each other for
// real: a sampled mesh and one rendezvous.
func BenchmarkFleet(b *testing.B) {
	if probe, err := net.Listen("tcp", fmt.Sprintf(benchNetwork, 1, 1)+":0"); err != nil {
		b.Skip("NOT RUN: it needs a network of its own, which `make bench` makes as root: ", err)
	} else {
		probe.Close()
	}
	recorded := fleettest.Healthy(4).Nodes[0].Facts
	for _, size := range []int{250, 1000} { // all in one process: more run out of files
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			hosts := make([]testhosts.Host, size)
			for i := range hosts {
				hosts[i].Exec = answerWith(recorded, i)
			}
			running := testhosts.Start(b, hosts...)
			list := filepath.Join(b.TempDir(), "hostfile")
			if err := os.WriteFile(list, []byte(running.Hostfile), 0o600); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				client := exec.Command(os.Args[0], "bench-client", running.Home, list)
				client.Stderr = os.Stderr
				if err := client.Run(); err != nil {
					b.Fatal(err)
				}
				used := client.ProcessState.SysUsage().(*syscall.Rusage)
				b.ReportMetric(float64(used.Maxrss)/1024, "MiB-client")
				cpu := client.ProcessState.UserTime() + client.ProcessState.SystemTime()
				b.ReportMetric(cpu.Seconds()*1000/float64(size), "ms-cpu/host")
			}
		})
	}
}

// benchClient is the measured process.
func benchClient(home, list string) error {
	hosts, _, err := hostfile.ReadFile(list, "")
	if err != nil {
		return err
	}
	carrier, err := ssh.New(ssh.Options{Home: home, SystemConfig: os.DevNull, AgentSocket: "none"})
	if err != nil {
		return err
	}
	client := remote.New(carrier, remote.Options{})
	defer client.Close()
	plan, err := NewPlan(context.Background(), Intent{Options: launch.Options{Hosts: hosts, Accelerator: "cuda", WorkDir: "/"}})
	if err != nil {
		return err
	}
	report := Run(context.Background(), Job{
		Plan:    plan,
		Policy:  checks.DefaultPolicy(),
		Remote:  client,
		Timeout: 5 * time.Minute,
	})
	for _, node := range report.Nodes {
		switch {
		case !node.Reached || len(node.Missing) > 0:
			return fmt.Errorf("%s: reached %v, missing %v, %+v", node.Name, node.Reached, node.Missing, node.SSH)
		case len(node.Mesh.Failed) > 0 || len(node.Mesh.Reached) != 8 /* itself, the next and six by chance */ :
			return fmt.Errorf("%s: reached %d peers, failed %+v", node.Name, len(node.Mesh.Reached), node.Mesh.Failed)
		case node.Rendezvous.Failed != "":
			return fmt.Errorf("%s: the rendezvous failed: %+v", node.Name, node.Rendezvous)
		}
	}
	return nil
}

// answerWith is the i-th host, whose agent tells recorded facts, without
// starting a shell or a probe: what is measured is the launching machine. What
// the hosts try among themselves is real.
func answerWith(recorded facts.Facts, i int) func(string, io.Reader, io.Writer, io.Writer) int {
	network := *recorded.Net
	network.Interfaces = slices.Clone(network.Interfaces)
	for at, link := range network.Interfaces {
		if !link.Loopback {
			network.Interfaces[at].Addresses = []string{fmt.Sprintf(benchNetwork, i/250, i%250+1) + "/16"}
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
