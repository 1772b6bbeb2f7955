// Command bench measures preflight beside its peers on one namespace cluster,
// in one run: a bare x/crypto login (the floor below which nothing that speaks
// ssh from Go can get), pdsh, clush, parallel-ssh, and preflight cold and warm.
//
// Seconds differ from machine to machine; the ratios are what is promised. It
// exits 1 when a promise is not kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"preflight/testhosts"
)

// The promises: against the floor, against pdsh, and of processor time on the
// launching machine. The floor is for what needs one login a node; that the nodes
// call each other costs every real machine a share of its own, and the two
// processors here the sum of all.
const (
	mostTimesFloor  = 3.0
	mostHeadCPUNode = 5 * time.Millisecond
)

func main() {
	nodes := flag.Int("n", 128, "hosts to raise")
	rounds := flag.Int("rounds", 3, "rounds; the median counts")
	floorOf := flag.String("floor", "", "")
	flag.Parse()
	if *floorOf != "" {
		os.Exit(floor(*floorOf))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	kept, err := bench(ctx, *nodes, *rounds)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(2)
	}
	if !kept {
		os.Exit(1)
	}
}

type contender struct {
	name         string
	argv         []string
	before       []string // run first, not measured
	seconds, cpu []float64
}

func bench(ctx context.Context, nodes, rounds int) (kept bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	preflight, err := filepath.Abs("bin/preflight")
	if err != nil {
		return false, err
	}
	began := time.Now()
	cluster, err := testhosts.Raise(ctx, testhosts.Options{Name: "bench", Nodes: nodes, Share: []string{filepath.Dir(self), filepath.Dir(preflight)}})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, cluster.Down()) }()
	fmt.Printf("%d hosts raised in %.1f s\n", nodes, time.Since(began).Seconds())

	var names []string
	for _, node := range cluster.Nodes {
		if _, err := node.CPUTorch("2.5.1+cpu"); err != nil { // without any nobody could tell of the launch
			return false, err
		}
		names = append(names, node.Name)
	}
	all := strings.Join(names, ",")
	main := []string{preflight, "-H", testhosts.HostfilePath, "--accelerator", "cpu", "-o", "/dev/null"}
	clean := []string{preflight, "clean", "-H", testhosts.HostfilePath}
	contenders := []*contender{
		{name: "bare x/crypto login", argv: []string{self, "-floor", all}},
		{name: "pdsh -R ssh hostname", argv: []string{"pdsh", "-R", "ssh", "-f", "1024", "-w", all, "hostname"}},
		{name: "clush hostname", argv: []string{"clush", "-f", "1024", "-w", all, "hostname"}},
		{name: "parallel-ssh hostname", argv: []string{"parallel-ssh", "-p", "1024", "-H", strings.Join(names, " "), "hostname"}},
		{name: "preflight, cold", argv: main, before: clean},
		{name: "preflight, warm, looking only", argv: append(slices.Clone(main), "--skip", "node-mesh,path-mtu,rendezvous")},
		{name: "preflight, warm", argv: main},
	}
	for range rounds {
		for _, c := range contenders {
			if err := c.measure(ctx, cluster); err != nil {
				return false, err
			}
		}
	}
	return summarize(contenders, nodes), nil
}

// measure runs a contender once on the head. preflight may find fault with the
// cluster (1), which is its job; anything else must end well.
func (c *contender) measure(ctx context.Context, cluster *testhosts.Cluster) error {
	if c.before != nil {
		if out, err := cluster.OnHead(ctx, c.before...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(c.before, " "), err, out)
		}
	}
	cmd := cluster.OnHead(ctx, c.argv...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !(errors.As(err, &ended) && ended.ExitCode() == 1 && strings.HasPrefix(c.name, "preflight")) {
		return fmt.Errorf("%s: %w\n%s", c.name, err, stderr.String())
	}
	c.seconds = append(c.seconds, time.Since(began).Seconds())
	c.cpu = append(c.cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	return nil
}

// summarize prints the table and whether the promises hold.
func summarize(contenders []*contender, nodes int) bool {
	by := map[string]*contender{}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "contender\tseconds\ttimes the floor\ttimes pdsh\thead CPU a node")
	for _, c := range contenders {
		by[c.name] = c
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%.1f ms\n", c.name, median(c.seconds),
			median(c.seconds)/median(contenders[0].seconds), median(c.seconds)/median(contenders[1].seconds), 1000*median(c.cpu)/float64(nodes))
	}
	table.Flush()
	looking, warm := contenders[len(contenders)-2], contenders[len(contenders)-1]
	kept := true
	for _, promise := range []struct {
		text string
		kept bool
	}{
		{"warm preflight, full mesh and rendezvous included, ends before pdsh hostname does", median(warm.seconds) < median(contenders[1].seconds)},
		{fmt.Sprintf("to look at all nodes takes at most %.0f times the floor", mostTimesFloor), median(looking.seconds) <= mostTimesFloor*median(contenders[0].seconds)},
		{fmt.Sprintf("warm preflight costs the head at most %v of CPU a node", mostHeadCPUNode), median(warm.cpu)/float64(nodes) <= mostHeadCPUNode.Seconds()},
	} {
		fmt.Printf("%-7s %s\n", map[bool]string{true: "kept", false: "BROKEN"}[promise.kept], promise.text)
		kept = kept && promise.kept
	}
	return kept
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// floor logs in to every host with nothing but x/crypto/ssh and runs hostname
// there, all at once. It verifies host keys, as anything real must.
func floor(hosts string) int {
	home := os.Getenv("HOME")
	text, err := os.ReadFile(filepath.Join(home, ".ssh", "id_ed25519"))
	if err != nil {
		return complain(err)
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return complain(err)
	}
	known, err := knownhosts.New(filepath.Join(home, ".ssh", "known_hosts"))
	if err != nil {
		return complain(err)
	}
	config := &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: known,
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	}
	names := strings.Split(hosts, ",")
	failures := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { failures[i] = hostname(name, config) })
	}
	all.Wait()
	for i, err := range failures {
		if err != nil {
			return complain(fmt.Errorf("%s: %w", names[i], err))
		}
	}
	return 0
}

func hostname(name string, config *ssh.ClientConfig) error {
	client, err := ssh.Dial("tcp", net.JoinHostPort(name, "22"), config)
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	_, err = session.Output("hostname")
	return err
}

func complain(err error) int {
	fmt.Fprintf(os.Stderr, "floor: %v\n", err)
	return 2
}
