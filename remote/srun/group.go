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

// groupFrom is the minimum number of nodes for which one srun starts all agents, which then call
// back. For fewer nodes, one srun per node costs no more.
const groupFrom = 17

// longestPatience is the maximum time to wait until all agents of one srun have called back.
const longestPatience = 8 * time.Second

// group holds the nodes of a job whose agents are started by one srun and then call back. No call
// is answered before it is known which nodes call. The reason is that one dead node makes Slurm
// kill all tasks of its step after 11 s (22.05, also with --no-kill). If a node is silent, the
// other agents are started once more without it.
type group struct {
	engine   *engine.Engine
	nodes    []string // in the order of Slurm's task numbers
	callback string   // HOST:PORT to which agents connect, "" for all addresses of the launching machine
	binary   func(goos, arch string) (*remote.Binary, error)
	patience time.Duration

	begin   func()          // runs gather on its first call
	ctx     context.Context // ends when the carrier is closed
	stop    context.CancelFunc
	running sync.WaitGroup
	decided chan struct{} // closed when it is known which nodes call back; the fields below are set then

	calls    *groupStep        // the step of the nodes that call back, nil for none
	uncalled map[string]string // why the other nodes could not call back
	mu       sync.Mutex
	called   map[string]bool // nodes that have called back and were not dialled yet
}

func newGroup(by *engine.Engine, nodes []string, o Options) *group {
	c := &group{engine: by, nodes: nodes, callback: o.Callback, binary: o.Binary, decided: make(chan struct{}), uncalled: map[string]string{}}
	c.patience = min(longestPatience, cmp.Or(o.Timeout, remote.DefaultTimeout)/6)
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.begin = sync.OnceFunc(func() { c.running.Go(c.gather) })
	return c
}

// dial returns the connection to a node that has called back, and the node's address. For a node
// that needs an srun of its own, connection is nil and uncalled says why the node's agent could not
// call back. uncalled is "" if the agent was not asked to.
func (c *group) dial(ctx context.Context, node string) (connection remote.Connection, address, uncalled string) {
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
	delete(c.called, node) // a node calls back only once
	connection, trace, err := c.calls.judge.Dial(ctx, node)
	if err != nil {
		return nil, "", ""
	}
	return connection, trace.Address, ""
}

// gather finds out which nodes call back.
func (c *group) gather() {
	defer close(c.decided)
	for nodes := c.nodes; len(nodes) > 1; {
		m, err := c.start(nodes)
		if err != nil {
			for _, node := range nodes {
				c.uncalled[node] = err.Error()
			}
			return
		}
		called, silent := m.await(c.ctx, c.patience)
		for node, word := range m.words {
			if isClosed(word.reported) && word.why != "" {
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
		if len(nodes) < len(c.nodes) { // the remaining nodes answered just now
			return
		}
		nodes = called
	}
}

// close ends the agents that have called back, and the srun that started them.
func (c *group) close() {
	c.stop()
	c.running.Wait()
	if c.calls != nil {
		c.calls.end()
		c.calls.engine.Close()
	}
}

// groupStep is one srun that starts the agents of several nodes. It also holds the addresses to
// which the agents connect.
type groupStep struct {
	nodes      []string
	at         []string // the addresses to which agents connect
	engine     *engine.Engine
	judge      *meet.Carrier
	connection remote.Connection
	words      map[string]*word
	ended      chan struct{} // closed when srun prints no more
}

// word is the report of a node that does not call back.
type word struct {
	reported chan struct{} // closed when the node has reported
	why      string        // "" if the node lacks the agent
}

// start starts one srun for these nodes.
func (c *group) start(nodes []string) (*groupStep, error) {
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
	m := &groupStep{nodes: nodes, at: back.To, words: map[string]*word{}, ended: make(chan struct{})}
	called := map[string]string{}
	for _, node := range nodes {
		called[node], m.words[node] = node, &word{reported: make(chan struct{})}
	}
	m.judge = meet.Listen(listener, back.Token, called)
	line, err := json.Marshal(back)
	if err != nil {
		m.judge.Close()
		return nil, err
	}
	command, input := remote.Calling(c.binary, variable, line)
	m.engine = &engine.Engine{Name: Name, Sheds: c.engine.Sheds, Explain: c.engine.Explain, Program: func(node string, argv []string) *exec.Cmd {
		cmd := c.engine.Program(node, argv)
		cmd.Env = exported(os.Environ(), input)
		return cmd
	}}
	m.connection = m.engine.Connect(strings.Join(nodes, ","))
	process, failure := m.connection.Start(command, io.Discard)
	if failure != nil {
		m.judge.Close()
		return nil, failure
	}
	go m.readReports(process.Stdout)
	return m, nil
}

// variable names the variable that tells agents how to call back. The token is an environment
// variable for two reasons: srun reads no standard input before all nodes have begun (22.05,
// src/api/step_io.c, _file_readable), and all users of a machine can read srun's command line.
const variable = "TOLD_BY_PREFLIGHT"

// exported returns env with the variable. If the user chose which variables srun exports, exported
// adds the variable to those.
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

// readReports records which nodes report that they do not call back. It reads until srun ends.
func (m *groupStep) readReports(stdout io.Reader) {
	defer close(m.ended)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		label, report, _ := strings.Cut(lines.Text(), ": ") // " 3: text" is from task 3
		task, err := strconv.Atoi(strings.TrimSpace(label))
		_, report, ours := strings.Cut(report, remote.Marker)
		if err != nil || !ours || task < 0 || task >= len(m.nodes) {
			continue
		}
		verb, why, _ := strings.Cut(report, " ")
		if w := m.words[m.nodes[task]]; !isClosed(w.reported) && (verb == "lacks" || verb == "uncalled") {
			w.why = text.Escape(why)
			close(w.reported)
		}
	}
	_, _ = io.Copy(io.Discard, stdout) // reads on so that srun does not block
}

// await waits until every node has called back or reported that it does not, or until patience is
// over. It returns the nodes that have called back, and the nodes that have done neither.
func (m *groupStep) await(ctx context.Context, patience time.Duration) (called, silent []string) {
	late := time.NewTimer(patience)
	defer late.Stop()
	waits := true
	for _, node := range m.nodes {
		if waits {
			select {
			case <-m.judge.Came(node):
			case <-m.words[node].reported:
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
		case !isClosed(m.words[node].reported):
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

// end closes the connections to the agents, and ends the srun that started them.
func (m *groupStep) end() {
	m.judge.Close()
	m.connection.Close()
}

// listen opens the port to which agents connect: the port from --callback, a port that Slurm
// reserves for srun, or any port.
func (c *group) listen() (net.Listener, error) {
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

// portRange returns the range of ports on which Slurm lets srun listen, 0 and 0 for any port.
func portRange(ctx context.Context, limit time.Duration) (low, high int) {
	program, err := exec.LookPath("scontrol")
	if err != nil {
		return 0, 0
	}
	config, _, err := hostsys.Child{Path: program, Args: []string{"show", "config"}, Limit: limit}.Run(ctx)
	found := srunPortRange.FindStringSubmatch(config)
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

// srunPortRange matches a line of scontrol show config. A range of 0-0 means none.
var srunPortRange = regexp.MustCompile(`(?m)^SrunPortRange\s*=\s*(\d{1,5})-(\d{1,5})$`)

// addresses returns the addresses of the launching machine that other machines may reach, each with
// the port.
func addresses(port string) (all []string) {
	found, _ := net.InterfaceAddrs() // agents do not connect to addresses that cannot be read
	for _, address := range found {
		network, ok := address.(*net.IPNet)
		if ok && !network.IP.IsLoopback() && !network.IP.IsLinkLocalUnicast() {
			all = append(all, net.JoinHostPort(network.IP.String(), port))
		}
	}
	return all
}
