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

// callsAtOnce keeps two CPUs busy and a node's backlog short.
const callsAtOnce = 32

// Run calls every peer. It sets Reached, Failed (in the order of Peers), MSS and Overflows; of the
// other fields of Mesh it sets only Error, if it could not try. It takes no longer than the
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
	live    map[int]*call // by socket
	young   int           // live calls that delay the start of others
	begun   int           // peers whose calls have started
	reaches []*reach      // one per peer
	now     time.Time     // at the last wait of poll
	wait    hostsys.Wait
	opening speech
	buffer  []byte
	// overflown is how often the neighbour table had no room before.
	overflown int64
}

// run loops until every call has ended. Everything that happens to calls happens here, so nothing
// needs a lock.
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
		if len(news) == 0 && !time.Now().Before(tick) { // a call with news has not expired
			tick = time.Now().Add(callPatience)
			c.expire()
		}
	}
}

// begin calls a peer, at one port in rotation or at all ports.
func (c *calling) begin(at, turn int) {
	peer := c.Peers[at]
	r := &reach{peer: peer, firstPort: turn, paths: make([]facts.Path, len(peer.Ports))}
	c.reaches[at] = r
	for i := range peer.Ports {
		if i == 0 || c.AllPorts {
			c.start(&call{reach: r, young: true}, r.port(i))
		}
	}
}

// start starts a call to a port. If the peer is near, the connection is established at once, and
// the data is sent together with the acknowledgement.
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
	if err == nil && !call.knock {
		err = call.speak(c)
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

// finish stores the result of a call. It also tries the peer's other ports and its ssh port if they
// can show more.
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
		if err != nil && call.connected { // the first call has nothing more to wait for
			call.err, call.doubted.end = err, c.now
		}
		return
	}
	r := call.reach
	if call.knock {
		if open := err == nil; call.path.Outcome != facts.PathBroken && call.path.Outcome != facts.PathUntried { // these show nothing
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
			c.start(&call{reach: r, young: true}, r.port(i))
		}
	}
	if r.peer.Control != 0 {
		c.start(&call{reach: r, young: true, knock: true}, r.peer.Control)
	}
}

// repeat makes a call again, step by step: how far it gets shows why the first one was not
// answered. It is no second chance.
func (c *calling) repeat(first *call) {
	first.second = &call{reach: first.reach, doubted: first}
	c.start(first.second, first.path.Port)
}

// expire ends the calls whose time is up, and lets others start while some wait.
func (c *calling) expire() {
	for _, call := range c.live {
		if call.young {
			call.young = false
			c.young--
		}
		switch {
		case call.doubted != nil:
			if call.doubted.fd < 0 { // it has ended
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
		call.reach.widened = true // there is no time for more
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
		if path.Peer != c.Node && (mesh.MSS == 0 || path.MSS < mesh.MSS) {
			mesh.MSS = path.MSS
		}
	}
	mesh.Overflows = max(0, c.overflows()-c.overflown)
	mesh.Counters = hostsys.LinkCounters("/")
	c.nextHops(mesh.Failed, mesh.Overflows > 0)
	c.hardware(mesh.Failed)
	return mesh
}

// reach is the result of calling one peer.
type reach struct {
	peer      Peer
	firstPort int          // which of its ports is called first
	paths     []facts.Path // by port; without Port, it was not called
	widened   bool         // other ports are being tried, because one failed
	control   *bool        // whether its ssh port accepts connections
}

func (r *reach) port(i int) int { return r.peer.Ports[(r.firstPort+i)%len(r.peer.Ports)] }

// conclude returns the first call that failed, with what the others show, or the first call if none
// failed.
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

// portsDiffer reports whether another port of the same address may have a different result than one
// with this outcome.
func portsDiffer(outcome facts.PathOutcome) bool {
	switch outcome {
	case facts.PathUnroutable, facts.PathBroken, facts.PathBlackhole, facts.PathMisdirected, facts.PathUnresolved:
		return false
	}
	return true
}
