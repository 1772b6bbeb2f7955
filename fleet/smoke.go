package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"preflight/drill/smoke"
	"preflight/facts"
	"preflight/fleet/agent"
	"preflight/launch"
	"preflight/launch/nccl"
)

// Smoke is the smoke test of a run.
type Smoke struct {
	Engine string        // of package smoke; "" for what all nodes have
	Time   time.Duration // for all of it; 0 for none
}

const (
	// computeTime is for how long every rank computes under load: long enough for a card to get
	// warm and for its clocks to settle. Exact sums, copies and the first call of each library
	// come besides.
	computeTime = 2 * time.Second
	// reduceTime is for one trial: NCCL and gloo meet in a second or two, and where they do not,
	// there is to be time for others.
	reduceTime = 8 * time.Second
	// dismissTime is for ranks to be gone, killed where they do not go.
	dismissTime = 3 * time.Second
	// fewNodes is of how many others a trial names each.
	fewNodes = 8
	// freeMemory is what a card must have left, in bytes: NCCL, cuBLAS and a buffer take some of it.
	freeMemory = 4 << 30
)

// sums is how many bytes the ranks reduce: more than any buffer on the way, and little where
// processors add them up.
var sums = map[bool]int{true: 64 << 20, false: 4 << 20} // by whether there are accelerators

func (r *run) noSmoke() string {
	switch {
	case r.Smoke.Time == 0:
		return "only with --smoke"
	case r.Prediction.Ranks() == nil:
		return "how many ranks each node will have is not known: name their slots"
	}
	return ""
}

// smokeTest is one under way.
type smokeTest struct {
	*run
	ctx   context.Context
	phase Phase
	end   time.Time
	ranks map[*member][]launch.Rank
	crews members          // whose ranks are up, and have not failed alone
	down  map[*member]bool // some ranks of which were, and have to be loaded anew
	tried map[string]int
}

// smoke has the ranks that the launch will have compute, then talk: those of each node among
// themselves, one of each node, all. Where they cannot, it finds out who.
func (r *run) smoke(ctx context.Context, d Drill) {
	ctx, over := context.WithCancel(ctx)
	defer over() // which ends the ranks of nodes that have not answered
	r.takeTurn(ctx, r.members, r.Smoke.Time/runsAhead)
	s := &smokeTest{run: r, ctx: ctx, phase: d.Phase, end: time.Now().Add(r.Smoke.Time), ranks: map[*member][]launch.Rank{}, down: map[*member]bool{}, tried: map[string]int{}}
	for _, rank := range r.Prediction.Ranks() {
		if m := r.members.named(rank.Host); m != nil {
			s.ranks[m] = append(s.ranks[m], rank)
		}
	}
	s.muster(d.Section)
	s.compute()
	s.together(facts.SmokeNode, everyRank)
	if s.together(facts.SmokeOne, firstRank) && s.together(facts.SmokeAll, everyRank) {
		s.pace()
	}
	s.dismiss()
}

// muster has every node start its ranks.
func (s *smokeTest) muster(section facts.Section) {
	limit := min(s.Smoke.Time/2+s.slack(s.Smoke.Time/2), s.Smoke.Time*3/4)
	engine := cmp.Or(s.Smoke.Engine, s.fitting())
	s.each(s.ctx, Event{Phase: s.named(facts.SmokeLoad)}, s.members, limit, func(ctx context.Context, m *member) error {
		seen := facts.Smoke{Engine: engine, Refused: s.refused(m, engine), Ranks: []facts.SmokeRank{}, Trials: []facts.SmokeTrial{}}
		var err error
		if seen.Refused == "" {
			var up smoke.Mustered
			crew := s.crew(m, engine, limit)
			up, err = agent.Muster.Start(s.ctx, m.agent, crew, limit+answerTime, nil)
			seen.Backend, seen.Ranks, seen.Refused = up.Backend, up.Ranks, up.Refused
			if err == nil && seen.Refused == "" && !slices.EqualFunc(crew.Ranks, seen.Ranks, func(p smoke.Place, r facts.SmokeRank) bool { return p.LocalRank == r.LocalRank }) {
				err = errors.New("it told of other ranks than it was to start")
			}
		}
		learn(m, &m.Smoke, section, seen, err)
		return err
	})
	s.crews = s.members.only(func(m *member) bool { return m.Smoke != nil && m.Smoke.Refused == "" })
	s.leave()
}

// fitting is the engine that all nodes have: they talk to each other.
func (s *smokeTest) fitting() string {
	hasDirect := func(m *member) bool {
		return m.NVML != nil && m.NVML.Source == "nvml" && len(m.NVML.Cards) > 0 && m.Python != nil && len(m.Python.NCCL) > 0
	}
	if s.Prediction.Accelerator == "cpu" || slices.ContainsFunc(s.members, func(m *member) bool { return !hasDirect(m) }) {
		return smoke.Torch
	}
	return smoke.Direct
}

// refused is why nothing is to be tried on a node, "" for nothing: a test that disturbs somebody's
// work, or is ended with a kernel under way that others share, would do harm.
func (s *smokeTest) refused(m *member, engine string) string {
	if len(s.ranks[m]) == 0 {
		return "no rank of this launch runs here"
	}
	if engine == smoke.Torch && (m.Python == nil || !m.Python.Found) {
		return "there is no interpreter to start: see python-same"
	}
	if s.Prediction.Accelerator == "cpu" || m.NVML == nil {
		return ""
	}
	for _, place := range s.Prediction.GPUsUsed()(m.Node) {
		card := m.NVML.Cards[place]
		uses := func(kind string) func(facts.GPUUser) bool {
			return func(user facts.GPUUser) bool { return user.Kind == kind }
		}
		switch {
		case card.MIG == "enabled":
			return fmt.Sprintf("GPU %d is in MIG mode, in which NCCL has no part", card.Index)
		case card.ComputeMode == "prohibited":
			return fmt.Sprintf("GPU %d takes no work: its compute mode is prohibited", card.Index)
		case slices.ContainsFunc(card.Processes, uses("mps")):
			return fmt.Sprintf("GPU %d is shared by MPS, where ending one of ours may end others' work", card.Index)
		case slices.ContainsFunc(card.Processes, uses("compute")):
			return fmt.Sprintf("GPU %d is in use", card.Index)
		case card.Memory > 0 && card.MemoryUsed != nil && card.Memory-*card.MemoryUsed < freeMemory:
			return fmt.Sprintf("GPU %d has less than %d GiB free", card.Index, freeMemory>>30)
		}
	}
	return ""
}

// crew is how a node's ranks are started.
func (s *smokeTest) crew(m *member, engine string, limit time.Duration) smoke.Crew {
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
	// torchrun gives each of several on a node one thread, unless it is told otherwise
	// (torch/distributed/run.py, 2.9).
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

// leave has those leave of whom a rank failed by itself.
func (s *smokeTest) leave() {
	hasFailed := func(rank facts.SmokeRank) bool { return rank.Failure != nil }
	for _, m := range s.crews {
		if slices.ContainsFunc(m.Smoke.Ranks, hasFailed) {
			m.Smoke.Fault = facts.FaultAlone
		}
	}
	s.crews = s.crews.only(func(m *member) bool { return m.Reached && m.Smoke.Fault == "" })
}

// compute has every rank compute and copy by itself, and once more those that were slow.
func (s *smokeTest) compute() {
	all := map[*member][]facts.SmokeRank{}
	for _, m := range s.crews {
		all[m] = m.Smoke.Ranks
	}
	s.have(all)
	s.leave()
	rates := map[string][]float64{} // by what they compute on
	for _, m := range s.crews {
		for _, rank := range m.Smoke.Ranks {
			rates[rank.Name] = append(rates[rank.Name], rank.Rate)
		}
	}
	slow := map[*member][]facts.SmokeRank{}
	for _, m := range s.crews {
		for _, rank := range m.Smoke.Ranks {
			if len(s.crews) >= facts.UsualFrom && rank.Rate < facts.SlowCompute*median(rates[rank.Name]) {
				slow[m] = append(slow[m], rank)
			}
		}
	}
	s.have(slow)
	s.leave()
}

func median(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }

// have has some ranks compute. The best of what one has done counts.
func (s *smokeTest) have(ranks map[*member][]facts.SmokeRank) {
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
	}, func(m *member, came smoke.Outcome, err error) {
		for i := range m.Smoke.Ranks {
			rank := &m.Smoke.Ranks[i]
			if done, is := came.Done[rank.LocalRank]; is {
				rank.Rate = max(rank.Rate, done.Rate)
				rank.HostToDevice, rank.DeviceToHost = max(rank.HostToDevice, done.HostToDevice), max(rank.DeviceToHost, done.DeviceToHost)
				rank.DeviceToDevice = max(rank.DeviceToDevice, done.DeviceToDevice)
			}
			for _, failure := range came.Failures {
				if failure.LocalRank == rank.LocalRank {
					rank.Failure = &failure
				}
			}
		}
	})
}

// command has members carry out orders at once, in a phase of its own, and hands what came to each.
func (s *smokeTest) command(stage facts.SmokeStage, who members, limit time.Duration, orders func(*member) map[int]smoke.Order, came func(*member, smoke.Outcome, error)) {
	limit = min(limit+s.slack(limit), time.Until(s.end)-answerTime)
	if limit < answerTime {
		for _, m := range who {
			m.Smoke.Untried = append(m.Smoke.Untried, stage)
		}
		return
	}
	s.each(s.ctx, Event{Phase: s.named(stage)}, who, limit, func(_ context.Context, m *member) error {
		outcome, err := s.ask(m, orders(m), limit)
		came(m, outcome, err)
		return err
	})
}

// ask has one member carry out orders. One that is lost has failed at all of them.
func (s *smokeTest) ask(m *member, orders map[int]smoke.Order, limit time.Duration) (smoke.Outcome, error) {
	ctx, cancel := within(s.ctx, m.agent, limit)
	defer cancel()
	outcome, err := agent.Command.Ask(ctx, m.agent, smoke.Orders{Token: s.token, Of: orders, Limit: limit})
	m.lose(err)
	if err != nil {
		outcome = smoke.Outcome{Failures: []facts.SmokeFailure{{Kind: facts.SmokeCrash, Message: "the node was lost: " + lostReason(err)}}}
	}
	return outcome, err
}

// named is the phase of a stage, whose every round is one of its own.
func (s *smokeTest) named(stage facts.SmokeStage) Phase {
	phase := s.phase
	phase.Label += " " + string(stage)
	if s.tried[phase.Label]++; s.tried[phase.Label] > 1 {
		phase.Label += " " + strconv.Itoa(s.tried[phase.Label])
	}
	return phase
}

// Which ranks of a node take part in a trial.
func everyRank(m *member) []facts.SmokeRank { return m.Smoke.Ranks }
func firstRank(m *member) []facts.SmokeRank { return m.Smoke.Ranks[:1] }

// together has ranks reduce: in stage SmokeNode those of each node by itself, in others those of all
// nodes. Where that fails, it finds out who cannot. It is false where there is nobody to go on with.
func (s *smokeTest) together(stage facts.SmokeStage, ranks func(*member) []facts.SmokeRank) bool {
	if stage == facts.SmokeNode {
		var alone []members
		for _, m := range s.crews {
			if len(ranks(m)) > 1 {
				alone = append(alone, members{m})
			}
		}
		for i, passed := range s.round(stage, alone, ranks) {
			if !passed {
				alone[i][0].Smoke.Fault = facts.FaultAlone
			}
		}
		s.leave()
		return true
	}
	size := 0
	for _, m := range s.crews {
		size += len(ranks(m))
	}
	if len(s.crews) < 2 || stage == facts.SmokeAll && size == len(s.crews) {
		return true // as many as in the trial before
	}
	if passed := s.round(stage, []members{s.crews}, ranks); len(passed) == 0 || passed[0] {
		return len(passed) > 0
	}
	crews := s.crews
	var all []int
	for i := range crews {
		all = append(all, i)
	}
	s.blame(crews, smoke.Isolate(all, func(round []smoke.Trial) (passed []bool, more bool) {
		var trials []members
		for _, trial := range round {
			var who members
			for _, i := range trial.Nodes {
				who = append(who, crews[i])
			}
			trials = append(trials, who)
		}
		passed = s.round(round[0].Stage, trials, ranks)
		return passed, len(passed) > 0
	}))
	s.crews = s.crews.only(func(m *member) bool { return m.Smoke.Fault == "" })
	return true
}

// pace has nodes reduce in pairs where all is well, and once more with others those whose pair was slow or that had
// no partner: of the group of all, which is as fast as its slowest, nobody can tell who that is.
func (s *smokeTest) pace() {
	isPair := func(trial facts.SmokeTrial) bool { return trial.Stage == facts.SmokePair }
	arePaired := slices.ContainsFunc(s.crews, func(m *member) bool { return slices.ContainsFunc(m.Smoke.Trials, isPair) })
	if len(s.crews) < facts.UsualFrom || arePaired { // to find out who cannot
		return
	}
	in := func(pairs []members) {
		for i, passed := range s.round(facts.SmokePair, pairs, firstRank) {
			if !passed { // though the whole did, by another way
				s.blame(pairs[i], smoke.Verdict{Among: [][]int{{0, 1}}})
			}
		}
	}
	var pairs, again []members
	for pair := range slices.Chunk(s.crews, 2) {
		if len(pair) == 2 {
			pairs = append(pairs, pair)
		}
	}
	in(pairs)
	rate := func(m *member) float64 {
		if trial := last(m.Smoke.Trials); isPair(trial) {
			return trial.Rate
		}
		return 0
	}
	var rates []float64
	for _, m := range slices.Concat(pairs...) {
		rates = append(rates, rate(m))
	}
	isSlow := func(m *member) bool { return rate(m) < facts.SlowTraffic*median(rates) }
	slow, well := s.crews.only(isSlow), s.crews.only(func(m *member) bool { return !isSlow(m) })
	for i := range min(len(slow), len(well)) {
		again = append(again, members{slow[i], well[i]})
	}
	in(again)
}

// round makes trials at once, in each of which some members reduce, and says which passed; nothing
// where there was no time to make them.
func (s *smokeTest) round(stage facts.SmokeStage, trials []members, ranks func(*member) []facts.SmokeRank) []bool {
	all := slices.Concat(trials...)
	if len(all) == 0 {
		return nil
	}
	s.loadAnew(all)
	limit := min(reduceTime, s.Smoke.Time/4)
	limit += s.slack(limit)
	if s.ctx.Err() != nil || time.Until(s.end)-answerTime < limit {
		for _, m := range all {
			m.Smoke.Untried = append(m.Smoke.Untried, stage)
		}
		return nil
	}
	passed := make([]bool, len(trials))
	phase := s.inWave(s.named(stage))
	s.emit(Event{Phase: phase, Step: Began, Nodes: len(all)})
	var made sync.WaitGroup
	for i, who := range trials {
		made.Go(func() { passed[i] = s.reduce(phase, stage, who, ranks, limit) })
	}
	made.Wait()
	for _, m := range all {
		s.down[m] = len(last(m.Smoke.Trials).Failures) > 0
	}
	return passed
}

func last[T any](of []T) T { return of[len(of)-1] }

// loadAnew waits until the ranks are loaded that had to be ended, which is no part of a trial.
func (s *smokeTest) loadAnew(who members) {
	who = who.only(func(m *member) bool { return s.down[m] })
	if len(who) == 0 {
		return
	}
	s.command(facts.SmokeLoad, who, s.Smoke.Time/2, func(m *member) map[int]smoke.Order {
		orders := map[int]smoke.Order{}
		for _, rank := range m.Smoke.Ranks {
			orders[rank.LocalRank] = smoke.Order{Do: smoke.DoLoad}
		}
		return orders
	}, func(*member, smoke.Outcome, error) {}) // who does not come up fails at the trial
}

// reduce has ranks of some members meet and reduce, and files what each member met.
func (s *smokeTest) reduce(phase Phase, stage facts.SmokeStage, who members, ranks func(*member) []facts.SmokeRank, limit time.Duration) (passed bool) {
	began, size := time.Now(), 0
	for _, m := range who {
		size += len(ranks(m))
	}
	first := ranks(who[0])[0].LocalRank
	met, meet := make([]smoke.Outcome, len(who)), smoke.Order{Do: smoke.DoMeet, Seconds: limit.Seconds() / 2, Size: size, Meet: s.meetAt(who)}
	met[0], _ = s.ask(who[0], map[int]smoke.Order{first: meet}, limit/2)
	if place, is := met[0].Done[first]; is {
		left := limit - time.Since(began)
		var all sync.WaitGroup
		next := 0
		for i, m := range who {
			orders := map[int]smoke.Order{}
			for _, rank := range ranks(m) {
				orders[rank.LocalRank] = smoke.Order{
					Do: smoke.DoReduce, Seconds: left.Seconds(), Rank: next, Size: size, Meet: place.Meet, Bytes: sums[s.Prediction.Accelerator != "cpu"],
				}
				next++
			}
			all.Go(func() {
				s.emit(Event{Phase: phase, Step: Began, Node: m.Name, Until: time.Now().Add(left + answerTime)})
				var err error
				met[i], err = s.ask(m, orders, left)
				s.ended(phase, m.Name, err)
			})
		}
		all.Wait()
	}
	passed = true
	for i, m := range who {
		passed = passed && len(met[i].Failures) == 0 && len(met[i].Done) == len(ranks(m))
	}
	for i, m := range who {
		trial := facts.SmokeTrial{Stage: stage, Nodes: len(who), Ranks: size, Passed: passed, Seconds: time.Since(began).Seconds(), Failures: met[i].Failures}
		for _, other := range who {
			if other != m && len(who) <= fewNodes && stage != facts.SmokeOne && stage != facts.SmokeAll {
				trial.With = append(trial.With, other.Name)
			}
		}
		for _, done := range met[i].Done {
			if passed && (trial.Rate == 0 || done.BitRate < trial.Rate) {
				trial.Rate = done.BitRate
			}
		}
		m.Smoke.Trials = append(m.Smoke.Trials, trial)
	}
	return passed
}

// meetAt is where rank 0 may be met: at the address of its node that leads to its peers, or within the node.
func (s *smokeTest) meetAt(who members) string {
	if len(who) == 1 {
		return "127.0.0.1"
	}
	return nccl.PeerAddress(who[0].Node).Address
}

// blame files what isolating has found.
func (s *smokeTest) blame(crews members, v smoke.Verdict) {
	against := func(fault facts.SmokeFault, among ...int) {
		for _, i := range among {
			seen := crews[i].Smoke
			seen.Fault = fault
			for _, j := range among {
				if j != i {
					seen.Against = append(seen.Against, crews[j].Name)
				}
			}
		}
	}
	isBad := func(name string) bool {
		return slices.ContainsFunc(v.Bad, func(i int) bool { return crews[i].Name == name })
	}
	for _, i := range v.Bad {
		seen := crews[i].Smoke
		seen.Fault = facts.FaultNode
		for _, trial := range seen.Trials {
			if trial.Stage == facts.SmokePair && !isBad(trial.With[0]) {
				seen.Against = append(seen.Against, trial.With...)
			}
		}
	}
	for _, edge := range v.Edges {
		against(facts.FaultEdge, edge[:]...)
	}
	for _, among := range v.Among {
		against(facts.FaultAmong, among...)
	}
	for _, m := range crews {
		if v.Common {
			m.Smoke.Fault = facts.FaultCommon
		}
		m.Smoke.Untried = append(m.Smoke.Untried, v.Untried...)
	}
}

// dismiss ends the ranks, and waits until they are gone: the launch is to find the devices free.
func (s *smokeTest) dismiss() {
	who := s.members.only(func(m *member) bool { return m.Reached && m.Smoke != nil && m.Smoke.Refused == "" })
	who.each(func(m *member) {
		ctx, cancel := within(s.ctx, m.agent, dismissTime)
		defer cancel()
		if gone, err := agent.Command.Ask(ctx, m.agent, smoke.Orders{Token: s.token, Dismiss: true}); err == nil {
			m.Smoke.Left = gone.Left
		}
	})
}
