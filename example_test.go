// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"preflight"
	"preflight/checks"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/remote"
	"preflight/remote/ssh"
	"preflight/report"
)

// A plan predicts a launch and contacts no node.
func ExampleNewPlan() {
	hosts, err := hostfile.ParseHosts("w[1-2]:8")
	if err != nil {
		log.Fatal(err)
	}
	plan, err := preflight.NewPlan(context.Background(), preflight.Intent{Options: launch.Options{
		Hosts: hosts, Launcher: "pdsh", MasterPort: launch.DefaultMasterPort, Rendezvous: launch.RendezvousDeepSpeed, Accelerator: "cuda", DeepSpeed: "0.15.2", WorkDir: "/",
	}})
	if err != nil {
		log.Fatal(err)
	}
	for _, host := range plan.Prediction.Hosts {
		fmt.Println(host.Name, "runs ranks on", host.Slots)
	}
	fmt.Println("they meet on port", plan.Prediction.MasterPort)
	// Output:
	// w1 runs ranks on [0 1 2 3 4 5 6 7]
	// w2 runs ranks on [0 1 2 3 4 5 6 7]
	// they meet on port 29500
}

// A run reaches every node of a plan and evaluates the checks. In this example no SSH server
// listens.
func ExampleRun() {
	ctx := context.Background()
	hosts, err := hostfile.ParseHosts("127.0.0.1")
	if err != nil {
		log.Fatal(err)
	}
	plan, err := preflight.NewPlan(ctx, preflight.Intent{Options: launch.Options{
		Hosts: hosts, Unlisted: true, Filter: hostfile.Filter{ForceMulti: true}, Launcher: "pdsh", MasterPort: launch.DefaultMasterPort,
		Rendezvous: launch.RendezvousDeepSpeed, SSHPort: 1, WorkDir: "/",
	}})
	if err != nil {
		log.Fatal(err)
	}
	const patience = 10 * time.Second // for one node
	carrier, err := ssh.New(ssh.Options{Port: plan.Prediction.SSHPort, Timeout: patience})
	if err != nil {
		log.Fatal(err)
	}
	nodes := remote.New(carrier, remote.Options{Timeout: patience, Nodes: len(plan.Prediction.Hosts)})
	defer nodes.Close()

	policy := checks.DefaultPolicy()
	policy.Only = []string{"ssh-reach"}
	verdict := preflight.Run(ctx, preflight.Job{Plan: plan, Policy: policy, Remote: nodes, Timeout: patience})
	fmt.Println(verdict.Verdict, verdict.ExitCode)
	for _, finding := range verdict.Findings {
		fmt.Println(finding.Check, finding.Nodes, finding.Summary)
	}
	// Output:
	// fail 1
	// ssh-reach [127.0.0.1] refuses connections on port 1: no SSH server listens there
}

// A saved run can be evaluated offline with another policy.
func ExampleJudge() {
	file, err := os.Open("cmd/preflight/demo.json")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	saved, err := report.Read(file)
	if err != nil {
		log.Fatal(err)
	}
	policy := checks.DefaultPolicy()
	policy.Only = []string{"shm-size", "gpu-driver-loads"}
	policy.Waivers = []checks.Waiver{{Check: "gpu-driver-loads", Nodes: []string{"w8"}, Reason: "waits for its reboot", Until: "2027-01-31"}}
	policy.Today = "2027-01-01"
	judged := preflight.Judge(saved.Fleet, saved.Launch, policy)
	for _, finding := range judged.Findings {
		if finding.Verdict == checks.Fail { // leave out unknown results
			fmt.Println(finding.Check, finding.Nodes, finding.Summary)
		}
	}
	for _, waived := range judged.Waived {
		fmt.Println("not counted:", waived.Check, waived.Nodes, waived.Reason)
	}
	// Output:
	// shm-size [w2] /dev/shm has 64 MiB, needs 517 MiB
	// not counted: gpu-driver-loads [w8] waits for its reboot
}
