// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/agent"
	"preflight/drill/smoke"
	"preflight/facts"
	"preflight/launch"
)

const (
	// computeTime is how long every rank computes under load. It is long enough for a GPU to warm
	// up and for its clocks to settle. Exact sums, copies and the first call of each library take
	// additional time.
	computeTime = 2 * time.Second
	// freeMemory is how many bytes of memory a GPU must have free. NCCL, cuBLAS and a buffer need
	// some of that memory.
	freeMemory = 4 << 30
)

// startRanks makes every node start its ranks.
func (s *smokeTest) startRanks(section facts.Section) {
	limit := s.Smoke.Time / 2
	engine := cmp.Or(s.Smoke.Engine, s.fitting())
	s.each(s.ctx, s.named(facts.SmokeLoad), s.members, limit, func(ctx context.Context, m *member) error {
		seen := facts.Smoke{Engine: engine, Refused: s.refused(m, engine), Ranks: []facts.SmokeRank{}, Trials: []facts.SmokeTrial{}}
		var err error
		if seen.Refused == "" {
			var up smoke.Mustered
			crew := s.crewOf(m, engine, limit)
			up, err = agent.Muster.Start(s.ctx, m.agent, crew, limit+answerTime, nil)
			seen.Backend, seen.Ranks, seen.Refused = up.Backend, up.Ranks, up.Refused
			if err == nil && seen.Refused == "" && !slices.EqualFunc(crew.Ranks, seen.Ranks, func(p smoke.Place, r facts.SmokeRank) bool { return p.LocalRank == r.LocalRank }) {
				err = errors.New("the agent reported other ranks than it was asked to start")
			}
		}
		learn(m, &m.Smoke, section, seen, err)
		return err
	})
	s.crews = s.members.only(func(m *member) bool { return m.Smoke != nil && m.Smoke.Refused == "" })
	s.dropFailed()
}

// fitting returns an engine that all nodes support. Ranks of different nodes must communicate, so
// they need the same engine.
func (s *smokeTest) fitting() string {
	hasDirect := func(m *member) bool {
		return m.NVML != nil && m.NVML.Source == "nvml" && len(m.NVML.Cards) > 0 && m.Python != nil && len(m.Python.NCCL) > 0
	}
	if s.Prediction.Accelerator == "cpu" || slices.ContainsFunc(s.members, func(m *member) bool { return !hasDirect(m) }) {
		return smoke.Torch
	}
	return smoke.Direct
}

// refused returns why no test may run on a node, or "" if a test may run. A test does harm if it
// disturbs other users' work. A test process that shares a GPU through MPS disturbs them if it must
// be killed.
func (s *smokeTest) refused(m *member, engine string) string {
	if len(s.ranks[m]) == 0 {
		return "no rank of this launch runs here"
	}
	if engine == smoke.Torch && (m.Python == nil || !m.Python.Found) {
		return "no Python interpreter to start: see python-same"
	}
	return s.inUse(m)
}

// inUse returns why the GPUs of a node's ranks must not be used, or "" if they may be used.
func (r *run) inUse(m *member) string {
	switch {
	case r.Prediction.Accelerator == "cpu":
		return ""
	case m.NVML == nil:
		return "could not read whether its GPUs are in use: " + m.Missing[facts.SectionNVML]
	case m.NVML.Failure != nil:
		return "its GPU driver does not answer correctly: see gpu-driver-loads"
	}
	for _, place := range r.Prediction.GPUsUsed()(m.Node) {
		card := m.NVML.Cards[place]
		computes := func(user facts.GPUUser) bool { return user.Kind == "compute" && !launch.IsDaemon(user) }
		switch {
		case card.MIG == "enabled":
			return fmt.Sprintf("GPU %d is in MIG mode, which NCCL does not support", card.Index)
		case card.ComputeMode == "prohibited":
			return fmt.Sprintf("GPU %d accepts no work: its compute mode is prohibited", card.Index)
		case slices.ContainsFunc(card.Processes, launch.IsMPS):
			return fmt.Sprintf("GPU %d is shared through MPS: ending a test process could end other users' work", card.Index)
		case slices.ContainsFunc(card.Processes, computes):
			return fmt.Sprintf("GPU %d is in use", card.Index)
		case card.Memory > 0 && card.MemoryUsed != nil && card.Memory-*card.MemoryUsed < freeMemory:
			return fmt.Sprintf("GPU %d has less than %d GiB free", card.Index, freeMemory>>30)
		}
	}
	return ""
}

// crewOf returns how to start a node's ranks.
func (s *smokeTest) crewOf(m *member, engine string, limit time.Duration) smoke.Crew {
	crew := smoke.Crew{
		Token: s.token, Engine: engine, WorkDir: s.Prediction.WorkDir, Accelerator: s.Prediction.Accelerator,
		Env: s.Prediction.Exports, Limit: limit,
	}
	if m.Python != nil {
		crew.Interpreter = m.Python.Path
		if len(m.Python.NCCL) > 0 {
			crew.NCCL = m.Python.NCCL[0].Path
		}
	}
	visible := ""
	if s.Prediction.ChoosesDevices() && s.Prediction.Accelerator != "cpu" {
		var slots []string
		for _, slot := range s.Prediction.SlotsUsed()(m.Node) {
			slots = append(slots, strconv.Itoa(slot))
		}
		visible = strings.Join(slots, ",")
	}
	// If a node has several ranks, torchrun gives each of them one thread, unless OMP_NUM_THREADS
	// is set (torch/distributed/run.py, 2.9).
	if threads := "OMP_NUM_THREADS"; s.Prediction.Torchrun() && len(s.ranks[m]) > 1 && launch.RankEnv(m.Env, s.Prediction.Exports).Get(threads).Value == "" {
		crew.Env = append(slices.Clone(crew.Env), facts.Setting{Name: threads, Value: "1"})
	}
	for _, rank := range s.ranks[m] {
		place := smoke.Place{LocalRank: rank.LocalRank, Device: rank.Device, Visible: visible}
		if s.Prediction.Accelerator == "cpu" {
			place.Device = -1
		}
		crew.Ranks = append(crew.Ranks, place)
	}
	return crew
}

// dropFailed removes the members with a rank that failed by itself.
func (s *smokeTest) dropFailed() {
	hasFailed := func(rank facts.SmokeRank) bool { return rank.Failure != nil }
	for _, m := range s.crews {
		if slices.ContainsFunc(m.Smoke.Ranks, hasFailed) {
			m.Smoke.Fault = facts.FaultAlone
		}
	}
	s.crews = s.crews.only(func(m *member) bool { return m.Reached && m.Smoke.Fault == "" })
}

// compute makes every rank compute and copy by itself. Slow ranks do so a second time.
func (s *smokeTest) compute() {
	all := map[*member][]facts.SmokeRank{}
	for _, m := range s.crews {
		all[m] = m.Smoke.Ranks
	}
	s.computeOn(all)
	s.dropFailed()
	rates := map[string][]float64{} // rates by the device that computes
	for _, m := range s.crews {
		for _, rank := range m.Smoke.Ranks {
			rates[rank.Name] = append(rates[rank.Name], rank.Rate)
		}
	}
	slow := map[*member][]facts.SmokeRank{}
	for _, m := range s.crews {
		for _, rank := range m.Smoke.Ranks {
			if len(s.crews) >= facts.UsualFrom && rank.Rate < facts.SlowCompute*facts.Usual(rates[rank.Name]) {
				slow[m] = append(slow[m], rank)
			}
		}
	}
	s.computeOn(slow)
	s.dropFailed()
}

// computeOn makes some ranks compute. It keeps the best result of each rank.
func (s *smokeTest) computeOn(ranks map[*member][]facts.SmokeRank) {
	who := s.crews.only(func(m *member) bool { return len(ranks[m]) > 0 })
	if len(who) == 0 {
		return
	}
	s.command(facts.SmokeCompute, who, max(4*computeTime, s.Smoke.Time/4), func(m *member) map[int]smoke.Order {
		orders := map[int]smoke.Order{}
		for _, rank := range ranks[m] {
			orders[rank.LocalRank] = smoke.Order{Do: smoke.DoCompute, Seconds: computeTime.Seconds()}
		}
		return orders
	}, func(m *member, outcome smoke.Outcome, err error) {
		for i := range m.Smoke.Ranks {
			rank := &m.Smoke.Ranks[i]
			if done, ok := outcome.Done[rank.LocalRank]; ok {
				rank.Rate = max(rank.Rate, done.Rate)
				rank.HostToDevice, rank.DeviceToHost = max(rank.HostToDevice, done.HostToDevice), max(rank.DeviceToHost, done.DeviceToHost)
				rank.DeviceToDevice = max(rank.DeviceToDevice, done.DeviceToDevice)
			}
			for _, failure := range outcome.Failures {
				if failure.LocalRank == rank.LocalRank {
					rank.Failure = &failure
				}
			}
		}
	})
}
