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

// Crew describes the ranks of one node. They are started once and then carry out one order after
// another, until the crew's context ends.
type Crew struct {
	Token       string  `json:"token"`  // token of this run, which orders contain
	Engine      string  `json:"engine"` // Torch or Direct
	Interpreter string  `json:"interpreter"`
	WorkDir     string  `json:"workdir"`
	Accelerator string  `json:"accelerator"` // cuda or cpu
	Ranks       []Place `json:"ranks"`
	// Env holds the variables that the launcher sets for every rank, in addition to the login's
	// environment.
	Env []facts.Setting `json:"env,omitempty"`
	// NCCL is the path of the libnccl that the ranks will load, "" for the loader's choice. Only
	// the Direct engine uses it.
	NCCL string `json:"nccl,omitempty"`
	// Limit is the time limit for all ranks together to load.
	Limit time.Duration `json:"limit"`
}

// Place says where one rank runs.
type Place struct {
	LocalRank int `json:"local_rank"`
	// Device is the number of the rank's accelerator, as LOCAL_RANK or Visible selects it; -1 for
	// none.
	Device int `json:"device"`
	// Visible is the launcher's CUDA_VISIBLE_DEVICES, "" if the launcher does not set it.
	Visible string `json:"visible,omitempty"`
}

// Mustered is the result of starting a node's ranks.
type Mustered struct {
	Backend string            `json:"backend"`
	Refused string            `json:"refused,omitempty"` // why no rank was started
	Ranks   []facts.SmokeRank `json:"ranks"`
}

// shm is the directory in which libraries create shared memory.
const shm = "/dev/shm"

// crews maps the tokens of this process's crews to the crews.
var crews = struct {
	sync.Mutex
	of map[string]*crew
}{of: map[string]*crew{}}

// crew is a running [Crew].
type crew struct {
	Crew
	ctx      context.Context // ends when the crew must end
	members  []*member
	ordering sync.Mutex      // held while orders are carried out
	dismiss  func() []string // ends the crew and returns its remaining files in /dev/shm
}

// member is a place and its process.
type member struct {
	Place
	crew *crew
	mu   sync.Mutex      // held while waiting for the rank
	rank *rank           // nil if the rank must still be loaded
	env  []facts.Setting // the variables with which the rank was loaded, in addition to the crew's
}

// Hold starts the ranks and reports how they started. When ctx ends, it ends the ranks and removes
// everything that they left.
func (c Crew) Hold(ctx context.Context, ready func(Mustered) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	crew := &crew{Crew: c, ctx: ctx}
	for _, place := range c.Ranks {
		crew.members = append(crew.members, &member{Place: place, crew: crew})
	}
	before := SharedMemory(shm)
	crew.dismiss = sync.OnceValue(func() []string {
		cancel()
		var ending sync.WaitGroup
		for _, m := range crew.members {
			ending.Go(m.end)
		}
		ending.Wait()
		return RemoveSince(shm, before)
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
	if err := ready(crew.loadAll()); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// loadAll loads all ranks at the same time.
func (c *crew) loadAll() Mustered {
	mustered := Mustered{Ranks: make([]facts.SmokeRank, len(c.members))}
	backends := make([]string, len(c.members))
	var loading sync.WaitGroup
	for i, m := range c.members {
		loading.Go(func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			began := time.Now()
			done, failure, _ := m.load(nil) // if the crew ends before the ranks have loaded, no caller reads the result
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

// load starts the rank, unless it already runs with these variables.
func (m *member) load(env []facts.Setting) (Done, *facts.SmokeFailure, error) {
	if m.rank != nil && !slices.Equal(m.env, env) && m.rank.end() {
		m.rank = nil
	}
	if m.rank != nil && m.rank.stuck && m.rank.hasEnded() {
		m.rank = nil // the rank had only been late, as on a busy machine
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

// heed forgets a rank that was ended, so that the next order loads it again. It keeps a rank that
// cannot be ended, because that rank still has the device.
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

// Orders holds one order for each of some ranks of a crew. The ranks carry them out at the same
// time.
type Orders struct {
	Token string        `json:"token"`
	Of    map[int]Order `json:"of"` // orders by local rank
	// Env lists variables with which these ranks must have been loaded, in addition to the crew's.
	// A rank without them is loaded again, because NCCL reads them only once (2.30.7,
	// src/transport/net_ib/init.cc, net_socket.cc).
	Env []facts.Setting `json:"env,omitempty"`
	// Limit is the time limit for all orders. A rank that has not answered by then is ended. A rank
	// whose communication failed is ended too. The rank's next order loads it again, within the
	// limit of the crew.
	Limit time.Duration `json:"limit"`
	// Dismiss ends the crew and gives no order. The outcome reports what is left of the crew.
	Dismiss bool `json:"dismiss,omitempty"`
}

// Outcome holds the ranks' answers, by local rank.
type Outcome struct {
	Done     map[int]Done         `json:"done"`
	Failures []facts.SmokeFailure `json:"failures,omitempty"` // in order of arrival
	Seconds  float64              `json:"seconds"`
	Left     []string             `json:"left,omitempty"` // files that a dismissed crew left in /dev/shm
}

// Run carries out the orders.
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
	var mu sync.Mutex // guards the outcome
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
			loading.Wait() // a rank that communicates with a rank that is still loading would wait without a limit
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
				_, _, _ = m.load(nil) // loads the rank in advance for its next order, which reports the result
			}
		}()
	}
	loading.Wait()
	began := time.Now()
	working.Wait()
	outcome.Seconds = time.Since(began).Seconds()
	return outcome
}
