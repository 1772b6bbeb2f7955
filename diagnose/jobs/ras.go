// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/internal/text"
)

// NCCL answers questions about a whole job on a TCP port, which every process of the job opens with
// SO_REUSEPORT. A client sends lines, and NCCL ends the connection after the status.
//
// Source: NCCL 2.24.3 to 2.30.7, src/ras/client.cc and client_support.cc. The format json exists since
// 2.28.7.
const (
	rasAddress = "localhost:28028" // unless NCCL_RAS_ADDR is set
	// rasGreeting is the time limit for NCCL's first lines. The kernel may give the connection to a
	// stopped process, so a client tries again, as NCCL's own does.
	rasGreeting = time.Second
	rasTries    = 4
	// rasLeg is how long a process of the job waits for the answers of others, in seconds. rasTime
	// is the time limit for the status: NCCL adds up to 5 seconds (RAS_COLLECTIVE_EXTRA_TIMEOUT).
	rasLeg  = 1
	rasTime = 7 * time.Second
	// mostStatus limits the size of a status. That of 4096 ranks in json has 2 MB.
	mostStatus = 8 << 20
	// rasNodes is on how many nodes, from rank 0's, an agent asks. Each answer is about all nodes.
	rasNodes = 2
	mostRAS  = 32
)

// rasPort returns where the ranks of this machine answer for NCCL, "" if none of them does or if
// agents of other nodes ask.
func rasPort(ranks []*process, t *tables) string {
	for _, p := range ranks {
		address := cmp.Or(p.environ["NCCL_RAS_ADDR"], rasAddress)
		_, port, _ := net.SplitHostPort(address)
		if p.job.Rank == nil || *p.job.Rank >= rasNodes*len(ranks) || p.job.Apart {
			continue
		}
		targets, _ := p.FileDescriptorTargets()
		for _, one := range t.of(p.PID) {
			if one.State == facts.SocketListening && strconv.Itoa(one.Port) == port && slices.Contains(targets, one.inode) {
				return address
			}
		}
	}
	return ""
}

// status is one answer of NCCL.
type status struct {
	silent, behind []facts.RASRank
	counts         string // all numbers of collectives, "" if the answer has none
}

// compared returns what two answers say together. A rank that is behind only once is on its way.
func compared(address string, first, last *status, err error) *facts.RAS {
	told := &facts.RAS{Address: address}
	if err != nil {
		told.Problem = err.Error()
		return told
	}
	told.Silent = last.silent[:min(len(last.silent), mostRAS)]
	if first.counts != "" && last.counts != "" {
		moved := first.counts != last.counts
		told.Moved = &moved
	}
	for _, one := range last.behind {
		if slices.Contains(first.behind, one) && len(told.Behind) < mostRAS {
			told.Behind = append(told.Behind, one)
		}
	}
	return told
}

// askRAS asks NCCL for the status of a job.
func askRAS(ctx context.Context, address string) (s *status, err error) {
	for range rasTries {
		if s, err = tryRAS(ctx, address); err == nil || ctx.Err() != nil {
			break
		}
	}
	return s, err
}

func tryRAS(ctx context.Context, address string) (*status, error) {
	dialer := net.Dialer{Timeout: rasGreeting}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	conn.SetDeadline(time.Now().Add(rasGreeting))
	in := bufio.NewReader(io.LimitReader(conn, mostStatus))
	say := func(line, want string) (bool, error) {
		if _, err := fmt.Fprintf(conn, "%s\n", line); err != nil {
			return false, err
		}
		answer, err := in.ReadString('\n')
		return strings.HasPrefix(answer, want), err
	}
	if is, err := say("CLIENT PROTOCOL 2", "SERVER PROTOCOL "); err != nil || !is {
		return nil, cmp.Or(err, errors.New("the program at this port is not NCCL"))
	}
	if _, err := say(fmt.Sprintf("TIMEOUT %d", rasLeg), "OK"); err != nil {
		return nil, err
	}
	inJSON, err := say("SET FORMAT json", "OK")
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(rasTime))
	if _, err := fmt.Fprint(conn, "VERBOSE STATUS\n"); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if inJSON {
		return readJSON(text)
	}
	return readText(string(text)), nil
}

// readJSON reads a status of NCCL 2.28.7 or newer.
func readJSON(text []byte) (*status, error) {
	type rank struct {
		Host   string `json:"host"`
		PID    int    `json:"pid"`
		Status struct {
			Unresponsive bool `json:"unresponsive"`
			Dead         bool `json:"considered_dead"`
		} `json:"status"`
		Counts map[string]int `json:"collective_counts"`
	}
	var told struct {
		Communicators []struct {
			Ranks   []rank `json:"ranks"`
			Missing []rank `json:"missing_ranks"`
		} `json:"communicators"`
	}
	if err := json.Unmarshal(text, &told); err != nil {
		return nil, fmt.Errorf("cannot read NCCL's status: %w", err)
	}
	s := &status{}
	for i, c := range told.Communicators {
		for _, r := range c.Missing {
			if r.Status.Unresponsive || r.Status.Dead {
				s.addSilent(facts.RASRank{Host: r.Host, PID: r.PID, Dead: r.Status.Dead})
			}
		}
		names := map[string]bool{}
		for _, r := range c.Ranks {
			for name := range r.Counts {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			var each []counted
			for _, r := range c.Ranks {
				each = append(each, counted{facts.RASRank{Host: r.Host, PID: r.PID}, r.Counts[name]})
			}
			s.addCounts(name, each)
			s.counts += fmt.Sprintln(i, name, launches(each))
		}
	}
	return s, nil
}

// counted is a rank and how many collectives of a kind it has launched.
type counted struct {
	facts.RASRank
	launched int
}

func launches(each []counted) string {
	all := text.Map(each, func(one counted) string { return strconv.Itoa(one.launched) })
	return strings.Join(all, ",")
}

func (s *status) addSilent(one facts.RASRank) {
	same := func(o facts.RASRank) bool { return o.Host == one.Host && o.PID == one.PID }
	if at := slices.IndexFunc(s.silent, same); at >= 0 {
		s.silent[at].Dead = s.silent[at].Dead || one.Dead
		return
	}
	s.silent = append(s.silent, one)
}

// addCounts records the ranks that have launched the fewest collectives of a kind, if others have
// launched more.
func (s *status) addCounts(name string, each []counted) {
	if len(each) == 0 {
		return
	}
	byCount := func(a, b counted) int { return cmp.Compare(a.launched, b.launched) }
	least, most := slices.MinFunc(each, byCount).launched, slices.MaxFunc(each, byCount).launched
	for _, one := range each {
		if one.launched == least && least < most && one.PID > 0 {
			one.Collectives = fmt.Sprintf("%s %d of %d", name, least, most)
			s.behind = append(s.behind, one.RASRank)
		}
	}
}

// These match lines of a status in NCCL's text format.
var (
	rasCounts  = lazyregexp.New(`^  Communicator ranks have different (?:(\w+) operation|collective operation) counts$`)
	rasGroup   = lazyregexp.New(`^  \d+ ranks have (?:launched up to operation (\d+)|not launched any operations)$`)
	rasLine    = lazyregexp.New(`^  Rank \d+ (?:has (?:launched up to operation (\d+)|not launched any operations) )?-- .*managed by process (\d+) on node (\S+)$`)
	rasProcess = lazyregexp.New(`^  Process (\d+) on node (\S+) managing `)
)

// readText reads a status in NCCL's text format. It names ranks only if they are the smaller part.
func readText(text string) *status {
	s := &status{}
	var title, kind, name string
	var each []counted
	group := 0
	done := func() {
		s.addCounts(name, each)
		each = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		number := func(text string) int {
			n, _ := strconv.Atoi(text) // "" means none
			return n
		}
		switch {
		case line != "" && !strings.HasPrefix(line, " "):
			done()
			words := strings.Fields(line)
			title, kind = words[len(words)-1], ""
		case rasCounts.MatchString(line):
			done()
			kind, name, group = "counts", cmp.Or(rasCounts.FindStringSubmatch(line)[1], "collective"), -1
		case strings.HasPrefix(line, "  Communicator ranks have different"):
			done()
			kind = ""
		case kind == "counts" && rasGroup.MatchString(line):
			group = number(rasGroup.FindStringSubmatch(line)[1])
			each = append(each, counted{launched: group}) // ranks that the status does not name
			s.counts += line
		case rasLine.MatchString(line):
			m := rasLine.FindStringSubmatch(line)
			one := counted{facts.RASRank{Host: m[3], PID: number(m[2])}, group}
			switch {
			case kind == "counts" && strings.Contains(line, " has "):
				one.launched, group = number(m[1]), -1
				fallthrough
			case kind == "counts":
				s.counts += line
				each = append(each, one)
			case title == "INCOMPLETE":
				s.addSilent(one.RASRank)
			}
		case rasProcess.MatchString(line) && (title == "INCOMPLETE" || title == "DEAD"):
			m := rasProcess.FindStringSubmatch(line)
			s.addSilent(facts.RASRank{Host: m[2], PID: number(m[1]), Dead: title == "DEAD"})
		}
	}
	done()
	return s
}
