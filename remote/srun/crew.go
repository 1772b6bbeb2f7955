// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"preflight/internal/hostsys"
	"preflight/internal/text"
	"preflight/remote"
	"preflight/remote/engine"
	"preflight/remote/meet"
)

// crewFrom is the least number of nodes whose agents are started by one srun and call us. For fewer nodes an srun for
// each costs no more.
const crewFrom = 17

// longestPatience is how long we wait at most until all agents of one srun have called.
const longestPatience = 8 * time.Second

// crew is the nodes of a job whose agents one srun starts, and which then call us. No call is answered before it is
// known of every node whether it calls: one dead node makes Slurm kill all tasks of its step after 11 s (22.05, with
// --no-kill too). Where a node is silent the others are started once more without it.
type crew struct {
	engine   *engine.Engine
	nodes    []string // as Slurm numbers them
	callback string   // HOST:PORT where agents are to call, "" for any address of this machine
	binary   func(goos, arch string) (*remote.Binary, error)
	patience time.Duration

	begin   func()          // gathers, the first time
	ctx     context.Context // ends with the carrier
	stop    context.CancelFunc
	running sync.WaitGroup
	decided chan struct{} // closed when it is known who calls, which sets what follows

	calls    *muster           // of those who call, nil for none
	uncalled map[string]string // why others could not
	mu       sync.Mutex
	called   map[string]bool // who calls, and has not been dialled yet
}

func newCrew(by *engine.Engine, nodes []string, o Options) *crew {
	c := &crew{engine: by, nodes: nodes, callback: o.Callback, binary: o.Binary, decided: make(chan struct{}), uncalled: map[string]string{}}
	c.patience = min(longestPatience, cmp.Or(o.Timeout, remote.DefaultTimeout)/6)
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.begin = sync.OnceFunc(func() { c.running.Go(c.gather) })
	return c
}

// dial returns the connection to a node that has called and its address, or nil for a node that needs an srun of its own,
// and why its agent could not call, "" if it was not to.
func (c *crew) dial(ctx context.Context, node string) (connection remote.Connection, address, uncalled string) {
	c.begin()
	select {
	case <-c.decided:
	case <-ctx.Done():
		return nil, "", ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.called[node] {
		return nil, "", c.uncalled[node]
	}
	delete(c.called, node) // it calls once
	connection, trace, err := c.calls.judge.Dial(ctx, node)
	if err != nil {
		return nil, "", ""
	}
	return connection, trace.Address, ""
}

// gather finds out which nodes call.
func (c *crew) gather() {
	defer close(c.decided)
	for nodes := c.nodes; len(nodes) > 1; {
		m, err := c.muster(nodes)
		if err != nil {
			for _, node := range nodes {
				c.uncalled[node] = err.Error()
			}
			return
		}
		called, silent := m.await(c.ctx, c.patience)
		for node, word := range m.words {
			if isClosed(word.said) && word.why != "" {
				c.uncalled[node] = word.why
			}
		}
		if len(called) == 0 && !isClosed(m.ended) {
			for _, node := range silent {
				c.uncalled[node] = fmt.Sprintf("no call came within %s at %s", text.Duration(c.patience.Seconds()), strings.Join(m.at, " or "))
			}
		}
		if len(silent) == 0 || c.ctx.Err() != nil {
			c.calls, c.called = m, map[string]bool{}
			for _, node := range called {
				c.called[node] = true
			}
			return
		}
		m.end()
		c.running.Go(m.engine.Close)
		if len(nodes) < len(c.nodes) { // they were heard just now
			return
		}
		nodes = called
	}
}

// close ends the agents that have called, and the srun that started them.
func (c *crew) close() {
	c.stop()
	c.running.Wait()
	if c.calls != nil {
		c.calls.end()
		c.calls.engine.Close()
	}
}

// muster is one srun that starts the agents of several nodes, and where they call.
type muster struct {
	nodes      []string
	at         []string // where they call
	engine     *engine.Engine
	judge      *meet.Carrier
	connection remote.Connection
	words      map[string]*word
	ended      chan struct{} // closed when the srun has said all
}

// word is what a node says that does not call.
type word struct {
	said chan struct{} // closed when the node has said it
	why  string        // "" where it lacks our binary
}

// muster starts one srun for these nodes.
func (c *crew) muster(nodes []string) (*muster, error) {
	listener, err := c.listen()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	var random [32]byte
	rand.Read(random[:]) // never fails, by its documentation
	back := meet.Back{Token: hex.EncodeToString(random[:]), Name: "SLURMD_NODENAME"}
	if c.callback != "" {
		back.To = []string{c.callback}
	} else {
		back.To, back.Near, back.Port = addresses(port), "SLURM_LAUNCH_NODE_IPADDR", port
	}
	m := &muster{nodes: nodes, at: back.To, words: map[string]*word{}, ended: make(chan struct{})}
	called := map[string]string{}
	for _, node := range nodes {
		called[node], m.words[node] = node, &word{said: make(chan struct{})}
	}
	m.judge = meet.Listen(listener, back.Token, called)
	line, err := json.Marshal(back)
	if err != nil {
		m.judge.Close()
		return nil, err
	}
	command, told := remote.Calling(c.binary, variable, line)
	m.engine = &engine.Engine{Name: Name, Sheds: c.engine.Sheds, Explain: c.engine.Explain, Program: func(node string, argv []string) *exec.Cmd {
		cmd := c.engine.Program(node, argv)
		cmd.Env = exported(os.Environ(), told)
		return cmd
	}}
	m.connection = m.engine.Connect(strings.Join(nodes, ","))
	process, failure := m.connection.Start(command, io.Discard)
	if failure != nil {
		m.judge.Close()
		return nil, failure
	}
	go m.hear(process.Stdout)
	return m, nil
}

// variable holds what agents are told. srun reads no standard input before all nodes have begun (22.05,
// src/api/step_io.c, _file_readable), and everybody on a machine sees its command lines.
const variable = "TOLD_BY_PREFLIGHT"

// exported returns env with the variable, and has srun export it where a user chose which variables srun exports.
func exported(env []string, value string) []string {
	const option = "SLURM_EXPORT_ENV"
	switch chosen := os.Getenv(option); chosen {
	case "", "ALL":
	case "NONE":
		env = append(env, option+"="+variable)
	default:
		env = append(env, option+"="+chosen+","+variable)
	}
	return append(env, variable+"="+value)
}

// hear notes which nodes say that they do not call, and reads on until srun ends.
func (m *muster) hear(stdout io.Reader) {
	defer close(m.ended)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		label, said, _ := strings.Cut(lines.Text(), ": ") // " 3: text", of task 3
		task, err := strconv.Atoi(strings.TrimSpace(label))
		_, said, ours := strings.Cut(said, remote.Marker)
		if err != nil || !ours || task < 0 || task >= len(m.nodes) {
			continue
		}
		verb, why, _ := strings.Cut(said, " ")
		if w := m.words[m.nodes[task]]; !isClosed(w.said) && (verb == "lacks" || verb == "uncalled") {
			w.why = text.Escape(why)
			close(w.said)
		}
	}
	_, _ = io.Copy(io.Discard, stdout) // so that srun goes on
}

// await waits until every node has called or said that it does not, or patience is over. It returns the nodes that have
// called, and those that have done neither.
func (m *muster) await(ctx context.Context, patience time.Duration) (called, silent []string) {
	late := time.NewTimer(patience)
	defer late.Stop()
	waits := true
	for _, node := range m.nodes {
		if waits {
			select {
			case <-m.judge.Came(node):
			case <-m.words[node].said:
			case <-late.C:
				waits = false
			case <-m.ended:
				waits = false
			case <-ctx.Done():
				waits = false
			}
		}
		switch {
		case isClosed(m.judge.Came(node)):
			called = append(called, node)
		case !isClosed(m.words[node].said):
			silent = append(silent, node)
		}
	}
	return called, silent
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// end hangs up on the agents, and ends the srun that started them.
func (m *muster) end() {
	m.judge.Close()
	m.connection.Close()
}

// listen takes a port where agents call: the one of --callback, one of those that Slurm opens for srun, or any.
func (c *crew) listen() (net.Listener, error) {
	if c.callback != "" {
		_, port, err := net.SplitHostPort(c.callback)
		if err != nil {
			return nil, err
		}
		return net.Listen("tcp", ":"+port)
	}
	low, high := portRange(c.ctx, c.patience)
	if low == 0 {
		return net.Listen("tcp", ":0")
	}
	for port := low; ; port++ {
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err == nil || port == high {
			return listener, err
		}
	}
}

// portRange is the ports that Slurm has srun listen on, 0 where it may take any.
func portRange(ctx context.Context, limit time.Duration) (low, high int) {
	program, err := exec.LookPath("scontrol")
	if err != nil {
		return 0, 0
	}
	said, _, err := hostsys.Child{Path: program, Args: []string{"show", "config"}, Limit: limit}.Run(ctx)
	found := srunPortRange.FindStringSubmatch(said)
	if err != nil || found == nil {
		return 0, 0
	}
	low, _ = strconv.Atoi(found[1])
	high, _ = strconv.Atoi(found[2])
	if low > high || high > 65535 {
		return 0, 0
	}
	return low, high
}

// srunPortRange is the line of scontrol show config; 0-0 is none.
var srunPortRange = regexp.MustCompile(`(?m)^SrunPortRange\s*=\s*(\d{1,5})-(\d{1,5})$`)

// addresses are those of this machine that others may reach it at, with a port.
func addresses(port string) (all []string) {
	found, _ := net.InterfaceAddrs() // what is left out is not called
	for _, address := range found {
		network, is := address.(*net.IPNet)
		if is && !network.IP.IsLoopback() && !network.IP.IsLinkLocalUnicast() {
			all = append(all, net.JoinHostPort(network.IP.String(), port))
		}
	}
	return all
}
