package explain

// tally keeps of each message who said it first and how often, so that a log of
// any length takes the same memory.
type tally struct {
	sources  []string
	many     bool // several logs: their names tell nodes apart
	lines    int  // of all sources together
	hearings []*hearing
	byKey    map[key]*hearing
	values   map[*Signature]map[string]event // of the group that must be one: who said each first
	network  networks
	folded   map[string]int // where in its list a message without a cause is told
}

// hearing is one message from one speaker.
type hearing struct {
	event // the earliest
	count int
	last  int // position of the latest
}

type key struct {
	signature *Signature
	said      string
	file      int
	speaker
}

const (
	// mostHearings bounds what a hostile log can make us remember.
	mostHearings = 20_000
	mostValues   = 64
)

func newTally(sources int) *tally {
	return &tally{many: sources > 1, byKey: map[key]*hearing{}, values: map[*Signature]map[string]event{}, folded: map[string]int{}}
}

// add notes a message and returns all that was heard of it from its speaker.
func (t *tally) add(e event) *hearing {
	derive(e.told)
	if s := e.signature; s != nil && s.Differs != "" {
		if t.values[s] == nil {
			t.values[s] = map[string]event{}
		}
		if _, known := t.values[s][e.told[s.Differs]]; !known && len(t.values[s]) < mostValues {
			t.values[s][e.told[s.Differs]] = e
		}
	}
	k := key{e.signature, e.said, e.file, e.speaker}
	known := t.byKey[k]
	if known == nil && len(t.hearings) >= mostHearings {
		k.speaker, k.said = speaker{}, ""
		known = t.byKey[k]
	}
	if known == nil {
		known = &hearing{event: e}
		t.byKey[k] = known
		t.hearings = append(t.hearings, known)
	}
	known.count++
	known.last = e.position
	if e.at.known() && known.at.known() && e.at.earlier(known.at) {
		known.event = e
	}
	return known
}

// heard is whether any of the messages was in the logs.
func (t *tally) heard(ids []string) bool {
	for _, h := range t.hearings {
		for _, id := range ids {
			if h.signature != nil && h.signature.ID == id {
				return true
			}
		}
	}
	return false
}
