// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"slices"
	"time"

	"preflight/drill/outcome"
	"preflight/facts"
	"preflight/internal/hostsys"
)

// callsAtOnce is enough calls to keep two CPUs busy, and few enough to keep a node's backlog short.
const callsAtOnce = 32

// Run calls every peer. It sets Reached, Failed (in the order of Peers), MSS and Overflows. If it
// could not try, it sets Error. It sets no other field of Mesh. Run takes no longer than the
// deadline and ends early with ctx.
func (c Calls) Run(ctx context.Context) facts.Mesh {
	ctx, cancel := context.WithTimeout(ctx, c.Deadline)
	defer cancel()
	poll, err := newPoll()
	if err != nil {
		return facts.Mesh{Error: err.Error()}
	}
	defer poll.close()
	defer poll.wake(ctx)()

	calls := &calling{
		Calls: c, key: keyOf(c.Token), poll: poll, live: map[int]*call{}, now: time.Now(), wait: hostsys.BeginWait(),
		reaches: make([]*reach, len(c.Peers)), buffer: make([]byte, 64<<10),
	}
	calls.opening = speech{kind: meshHello, key: calls.key, node: c.Node}
	calls.overflown = calls.overflows()
	calls.run(ctx)
	return calls.mesh()
}

// calling is a node that is calling its peers.
type calling struct {
	Calls
	key     key
	poll    *poll
	live    map[int]*call // calls in progress, by socket
	young   int           // number of live calls that still delay the start of others
	begun   int           // number of peers whose calls have started
	reaches []*reach      // one per peer
	now     time.Time     // time at which poll last waited
	wait    hostsys.Wait
	opening speech
	buffer  []byte
	// overflown is how often the neighbour table had no room before these calls.
	overflown int64
}

// run loops until every call has ended. Only this goroutine handles the calls, so nothing needs a
// lock.
func (c *calling) run(ctx context.Context) {
	own := max(0, slices.IndexFunc(c.Peers, func(p Peer) bool { return p.Name == c.Node }))
	tick := time.Now().Add(callPatience)
	for c.begun < len(c.Peers) || len(c.live) > 0 {
		for c.begun < len(c.Peers) && c.young < callsAtOnce {
			at := (own + c.begun) % len(c.Peers)
			c.begun++
			c.begin(at, own+at)
		}
		news := c.poll.wait(ctx, tick)
		c.now = time.Now()
		for _, n := range news {
			if call := c.live[int(n.Fd)]; call != nil {
				call.ready(c, n.Events)
			}
		}
		if ctx.Err() != nil {
			c.stop()
			return
		}
		if len(news) == 0 && !time.Now().Before(tick) { // only calls without news can have expired
			tick = time.Now().Add(callPatience)
			c.expire()
		}
	}
}

// begin calls a peer at all its ports, or at one port in rotation.
func (c *calling) begin(at, turn int) {
	peer := c.Peers[at]
	r := &reach{peer: peer, firstPort: turn, paths: make([]facts.Path, len(peer.Ports))}
	c.reaches[at] = r
	for i := range peer.Ports {
		if i == 0 || c.AllPorts {
			c.start(&call{reach: r, young: true, knock: peer.Knock}, r.port(i))
		}
	}
}

// start starts a call to a port. If the peer is near, the connection is established at once, and
// the kernel sends the data together with the acknowledgement.
func (c *calling) start(call *call, port int) {
	to := call.reach.peer
	call.path = facts.Path{Peer: to.Name, To: to.Address, Port: port}
	call.fd, call.began = -1, time.Now()
	if call.end = c.now.Add(connectTime); call.doubted != nil {
		call.end = call.doubted.end
	}
	if call.young {
		c.young++
	}
	err := call.dial(&c.Calls, to.Address, port)
	switch {
	case err != nil:
	case !call.knock:
		err = call.speak(c)
	case isConnected(call.fd):
		call.opens()
		c.finish(call, nil)
		return
	}
	if err == nil {
		awaited := uint32(comesOrGoes)
		if call.connected && len(call.unsent) == 0 {
			awaited = comes
		}
		err = c.poll.watch(call.fd, awaited)
	}
	if err != nil {
		c.finish(call, err)
		return
	}
	c.live[call.fd] = call
}

// finish stores the result of a call. It also tries the peer's other ports and its ssh port if
// these can show more.
func (c *calling) finish(call *call, err error) {
	if call.fd >= 0 {
		if err == nil && !call.knock {
			call.path.MSS = segment(call.fd) // a router on the path may have lowered it
		}
		delete(c.live, call.fd)
		call.hangUp()
	}
	if call.young {
		c.young--
	}
	if err != nil {
		call.path.Seconds = time.Since(call.began).Seconds()
		if call.path.Outcome == "" {
			call.path.Outcome = outcome.Of(err)
		}
		call.path.Error = outcome.Words(err)
	}
	if call.doubted != nil {
		if err != nil && call.connected { // the first call no longer has to wait for this result
			call.err, call.doubted.end = err, c.now
		}
		return
	}
	r := call.reach
	if call.path.Port == r.peer.Control {
		if open := err == nil; call.path.Outcome != facts.PathBroken && call.path.Outcome != facts.PathUntried { // calls with these outcomes show nothing about the port
			r.control = &open
		}
		return
	}
	r.paths[slices.Index(r.peer.Ports, call.path.Port)] = call.path
	if err != nil && !r.widened && portsDiffer(call.path.Outcome) {
		c.widen(r)
	}
}

// widen tries the peer's other ports and its ssh port.
func (c *calling) widen(r *reach) {
	r.widened = true
	for i := range r.peer.Ports {
		if i > 0 && !c.AllPorts {
			c.start(&call{reach: r, young: true, knock: r.peer.Knock}, r.port(i))
		}
	}
	if r.peer.Control != 0 {
		c.start(&call{reach: r, young: true, knock: true}, r.peer.Control)
	}
}

// repeat makes a call again, step by step. How far the second call gets shows why the first call
// was not answered. The second call cannot replace the first one's result.
func (c *calling) repeat(first *call) {
	first.second = &call{reach: first.reach, doubted: first}
	c.start(first.second, first.path.Port)
}

// expire ends the calls whose time is over. It also lets other calls start while some still wait.
func (c *calling) expire() {
	for _, call := range c.live {
		if call.young {
			call.young = false
			c.young--
		}
		switch {
		case call.doubted != nil:
			if call.doubted.fd < 0 { // the doubted call has ended
				c.finish(call, errHungUp)
			}
		case !c.now.Before(call.end):
			c.finish(call, call.expired(c.now))
		case call.inDoubt(c.now):
			c.repeat(call)
		}
	}
}

func (c *calling) stop() {
	for _, call := range c.live {
		call.reach.widened = true // no time is left to try more ports
		c.finish(call, call.expired(c.now))
	}
}

func (c *calling) mesh() facts.Mesh {
	mesh := facts.Mesh{Reached: make(map[string]float64, len(c.reaches))}
	for i, r := range c.reaches {
		if r == nil {
			r = &reach{peer: c.Peers[i]}
		}
		path := r.conclude()
		outcome.Excuse(&path, c.wait.Excuse(c.Node))
		if path.Outcome != "" {
			mesh.Failed = append(mesh.Failed, path)
			continue
		}
		mesh.Reached[path.Peer] = path.Seconds
		if path.Peer != c.Node && path.MSS != 0 && (mesh.MSS == 0 || path.MSS < mesh.MSS) {
			mesh.MSS = path.MSS
		}
	}
	mesh.Overflows = max(0, c.overflows()-c.overflown)
	mesh.Counters = hostsys.LinkCounters("/")
	c.nextHops(mesh.Failed, mesh.Overflows > 0)
	c.hardware(mesh.Failed)
	return mesh
}

// reach holds the results of calling one peer.
type reach struct {
	peer      Peer
	firstPort int          // index of the port of the peer that is called first
	paths     []facts.Path // by port; a path without Port was not called
	widened   bool         // the other ports are being tried, because one port failed
	control   *bool        // whether the peer's ssh port accepts connections
}

func (r *reach) port(i int) int { return r.peer.Ports[(r.firstPort+i)%len(r.peer.Ports)] }

// conclude returns the first call that failed, together with what the other calls show. If no call
// failed, it returns the first call.
func (r *reach) conclude() facts.Path {
	var result facts.Path
	for i := range r.paths {
		path := r.paths[(r.firstPort+i)%len(r.paths)]
		if path.Port != 0 && (result.Port == 0 || result.Outcome == "" && path.Outcome != "") {
			result = path
		}
	}
	if result.Port == 0 {
		result = facts.Path{Peer: r.peer.Name, To: r.peer.Address, Outcome: facts.PathUntried, Error: outcome.ErrNoTime.Error()}
		if len(r.peer.Ports) == 0 {
			result.Outcome, result.Error = facts.PathBroken, "it has not reported that it listens"
		}
		return result
	}
	if result.Outcome == "" || !portsDiffer(result.Outcome) {
		return result
	}
	result.Control = r.control
	for _, other := range r.paths {
		switch {
		case other.Port == result.Port, other.Port == 0, other.Outcome == facts.PathBroken:
		case other.Outcome == "":
			result.Open = append(result.Open, other.Port)
		default:
			result.Shut = append(result.Shut, other.Port)
		}
	}
	return result
}

// portsDiffer reports whether another port of the same address may have a different outcome.
func portsDiffer(outcome facts.PathOutcome) bool {
	switch outcome {
	case facts.PathUnroutable, facts.PathBroken, facts.PathBlackhole, facts.PathMisdirected, facts.PathUnresolved:
		return false
	}
	return true
}
