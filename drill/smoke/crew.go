// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"preflight/facts"
)

// Crew is the ranks of one node, which are started once and then have one order after
// another, until its context ends.
type Crew struct {
	Token       string  `json:"token"`  // of this run: orders name it
	Engine      string  `json:"engine"` // Torch or Direct
	Interpreter string  `json:"interpreter"`
	WorkDir     string  `json:"workdir"`
	Accelerator string  `json:"accelerator"` // cuda or cpu
	Ranks       []Place `json:"ranks"`
	// Env is what the launcher sets for every rank beside what a login gives it.
	Env []facts.Setting `json:"env,omitempty"`
	// NCCL is the path of the library that the ranks will load, "" for none (of Direct).
	NCCL string `json:"nccl,omitempty"`
	// Limit is for all of them to load.
	Limit time.Duration `json:"limit"`
}

// Place is where one rank runs.
type Place struct {
	LocalRank int `json:"local_rank"`
	// Device is the accelerator that it takes, as LOCAL_RANK or Visible lead it there, -1 for none.
	Device int `json:"device"`
	// Visible is what CUDA_VISIBLE_DEVICES is set to by the launcher, "" where it sets none.
	Visible string `json:"visible,omitempty"`
}

// Mustered is how the ranks of a node have come up.
type Mustered struct {
	Backend string            `json:"backend"`
	Refused string            `json:"refused,omitempty"` // why none was started
	Ranks   []facts.SmokeRank `json:"ranks"`
}

// shm is where libraries share memory.
const shm = "/dev/shm"

// crews are those of this process, by token.
var crews = struct {
	sync.Mutex
	of map[string]*crew
}{of: map[string]*crew{}}

// crew is a [Crew] at work.
type crew struct {
	Crew
	ctx      context.Context // ends when the crew is to
	members  []*member
	ordering sync.Mutex      // held by whoever gives orders
	dismiss  func() []string // ends it; says which files in /dev/shm are left of it
}

// member is a place and who is there.
type member struct {
	Place
	crew *crew
	mu   sync.Mutex      // held by whoever waits for the rank
	rank *rank           // nil where it has yet to be loaded
	env  []facts.Setting // that it was loaded with beside the crew's
}

// Hold starts the ranks, says how they came up, and ends them and all that they left when ctx ends.
func (c Crew) Hold(ctx context.Context, ready func(Mustered) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	crew := &crew{Crew: c, ctx: ctx}
	for _, place := range c.Ranks {
		crew.members = append(crew.members, &member{Place: place, crew: crew})
	}
	before := shared(shm)
	crew.dismiss = sync.OnceValue(func() []string {
		cancel()
		var ending sync.WaitGroup
		for _, m := range crew.members {
			ending.Go(m.end)
		}
		ending.Wait()
		return removeSince(shm, before)
	})
	crews.Lock()
	if crews.of[c.Token] != nil {
		crews.Unlock()
		return errors.New("the ranks of this run are already started")
	}
	crews.of[c.Token] = crew
	crews.Unlock()
	defer func() {
		crew.dismiss()
		crews.Lock()
		delete(crews.of, c.Token)
		crews.Unlock()
	}()
	if err := ready(crew.muster()); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// muster has all ranks load at once.
func (c *crew) muster() Mustered {
	mustered := Mustered{Ranks: make([]facts.SmokeRank, len(c.members))}
	backends := make([]string, len(c.members))
	var loading sync.WaitGroup
	for i, m := range c.members {
		loading.Go(func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			began := time.Now()
			done, failure, _ := m.load(nil) // where the crew ends meanwhile nobody hears of it
			backends[i] = done.Backend
			mustered.Ranks[i] = facts.SmokeRank{
				LocalRank: m.LocalRank, Device: m.Device, Name: done.Name, Address: done.Address,
				Load: time.Since(began).Seconds(), Failure: failure,
			}
		})
	}
	loading.Wait()
	mustered.Backend = cmp.Or(backends...)
	return mustered
}

// load starts the rank where there is none with these variables.
func (m *member) load(env []facts.Setting) (Done, *facts.SmokeFailure, error) {
	if m.rank != nil && !slices.Equal(m.env, env) && m.rank.end() {
		m.rank = nil
	}
	if m.rank != nil && m.rank.stuck && m.rank.hasEnded() {
		m.rank = nil // it was only late, as on a machine that has much to do
	}
	if err := m.crew.ctx.Err(); err != nil || m.rank != nil {
		return Done{}, nil, err
	}
	cmd := m.crew.command(m.Place, env)
	rank, loaded, err := start(cmd)
	if err != nil {
		kind := facts.SmokeError
		if errors.Is(err, fs.ErrNotExist) {
			kind = facts.SmokeAbsent
		}
		return Done{}, &facts.SmokeFailure{LocalRank: m.LocalRank, Kind: kind, Call: "exec " + cmd.Path, Message: err.Error()}, nil
	}
	m.rank, m.env = rank, env
	return m.heed(rank.await(m.crew.ctx, loaded, m.crew.Limit, func() {}))
}

// heed forgets a rank that was ended, so that the next order loads it anew. One that cannot be
// ended stays: it has the device.
func (m *member) heed(done Done, failure *facts.SmokeFailure, err error) (Done, *facts.SmokeFailure, error) {
	if (failure != nil || err != nil) && !m.rank.stuck {
		m.rank = nil
	}
	if failure != nil {
		failure.LocalRank = m.LocalRank
	}
	return done, failure, err
}

func (m *member) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rank != nil {
		m.rank.end()
	}
}

// Orders are one for each of some ranks of a crew, which carry them out at once.
type Orders struct {
	Token string        `json:"token"`
	Of    map[int]Order `json:"of"` // by local rank
	// Env is what these ranks are to have been loaded with beside the crew's; who was not is loaded anew, as NCCL
	// reads it once (2.30.7, src/transport/net_ib/init.cc, net_socket.cc).
	Env []facts.Setting `json:"env,omitempty"`
	// Limit is for all of them: who has not answered by then is ended, as is one that failed at
	// talking. Its next order has it loaded anew, within the limit of the crew.
	Limit time.Duration `json:"limit"`
	// Dismiss has the crew ended instead, so that it can be told what is left of it.
	Dismiss bool `json:"dismiss,omitempty"`
}

// Outcome is what the ranks answered, by local rank.
type Outcome struct {
	Done     map[int]Done         `json:"done"`
	Failures []facts.SmokeFailure `json:"failures,omitempty"` // in the order in which they came
	Seconds  float64              `json:"seconds"`
	Left     []string             `json:"left,omitempty"` // of a crew that was dismissed, in /dev/shm
}

// Run has them carried out.
func (o Orders) Run(ctx context.Context) Outcome {
	outcome := Outcome{Done: map[int]Done{}}
	crews.Lock()
	crew := crews.of[o.Token]
	crews.Unlock()
	if crew == nil {
		for local := range o.Of {
			outcome.Failures = append(outcome.Failures, facts.SmokeFailure{LocalRank: local, Kind: facts.SmokeAbsent, Call: o.Of[local].Do, Message: "its process has been ended"})
		}
		return outcome
	}
	if o.Dismiss {
		outcome.Left = crew.dismiss()
		return outcome
	}
	crew.ordering.Lock()
	defer crew.ordering.Unlock()
	var mu sync.Mutex // over the outcome
	var loading, working sync.WaitGroup
	for _, m := range crew.members {
		order, ordered := o.Of[m.LocalRank]
		if !ordered {
			continue
		}
		loading.Add(1)
		working.Add(1)
		go func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			done, failure, err := m.load(o.Env)
			loading.Done()
			loading.Wait() // who talks to one that has yet to load waits with no limit of its own
			if failure == nil && err == nil && order.Do != DoLoad {
				done, failure, err = m.heed(m.rank.do(ctx, order, o.Limit))
			}
			mu.Lock()
			if failure != nil {
				outcome.Failures = append(outcome.Failures, *failure)
			} else if err == nil {
				outcome.Done[m.LocalRank] = done
			}
			mu.Unlock()
			working.Done()
			if failure != nil && order.Do != DoCompute && order.Do != DoLoad && o.Env == nil {
				_, _, _ = m.load(nil) // already, as its next order will need it, which tells what comes of it
			}
		}()
	}
	loading.Wait()
	began := time.Now()
	working.Wait()
	outcome.Seconds = time.Since(began).Seconds()
	return outcome
}
