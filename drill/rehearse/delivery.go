// SPDX-License-Identifier: Apache-2.0

// Package rehearse is the part of one machine in the rehearsal of a launch: the user's own launcher
// runs with a stand-in script in place of the training.
//
// On each node an agent puts the stand-in script into a private directory, starts the launcher if
// the command is typed on every node, and passes on what the ranks report. It ends everything when
// its own connection ends. The package does not evaluate what the ranks report.
package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"preflight/drill/smoke"
	"preflight/facts"
)

// Delivery delivers the stand-in script to a node.
type Delivery struct {
	ID   string `json:"id"`   // the rehearsal's ID, which no other text on the node contains
	Dir  string `json:"dir"`  // an existing directory
	Name string `json:"name"` // name of the user's script
	Text string `json:"text"` // the stand-in script
}

// Path returns the path of the stand-in script on every node.
func (p Delivery) Path() string { return filepath.Join(p.own(), p.Name) }

// own returns the private directory of the rehearsal.
func (p Delivery) own() string { return filepath.Join(p.Dir, p.ID) }

// Report is what a node reports during a rehearsal.
type Report struct {
	Undelivered string `json:"undelivered,omitempty"` // why the script could not be put in its place
	Lines       []Line `json:"lines,omitempty"`       // new lines of the ranks
	// Ended means that the launcher that was started on this node has ended.
	Ended bool `json:"ended,omitempty"`
}

// Line is a line of JSON that a rank of the stand-in script writes to its file.
type Line struct {
	PID     int                     `json:"pid"`   // from the name of the file
	Rank    string                  `json:"rank"`  // "" if the launcher has set none
	Local   string                  `json:"local"` // "" if the launcher has set none
	Event   string                  `json:"event"`
	Stage   string                  `json:"stage"`
	Seconds float64                 `json:"seconds,omitempty"`
	Error   string                  `json:"error,omitempty"`
	Trace   string                  `json:"trace,omitempty"`
	How     string                  `json:"how,omitempty"`
	What    string                  `json:"what,omitempty"`
	Detail  string                  `json:"detail,omitempty"`
	Idle    bool                    `json:"idle,omitempty"`
	Sockets []facts.RehearsedSocket `json:"sockets,omitempty"`
}

// shm is the directory in which libraries create shared memory.
const shm = "/dev/shm"

// lookTime is the time between two looks at the files of the ranks.
const lookTime = 200 * time.Millisecond

// rehearsals maps the IDs of the rehearsals of this process to their state.
var rehearsals = struct {
	sync.Mutex
	of map[string]*rehearsal
}{of: map[string]*rehearsal{}}

type rehearsal struct {
	Delivery
	before smoke.Segments // shared memory that existed before the rehearsal

	mu      sync.Mutex
	ranks   map[string]*said // what was read from each rank's file
	program *Program         // nil if none was started
	isOver  bool
}

// said is what is known about a rank.
type said struct {
	read    int    // how many bytes of its file were read
	last    Line   // the last line of its file
	alive   bool   // whether this process has seen it alive
	elastic string // the directory that torchrun made for it and does not remove, "" for none
}

// Hold delivers the script and reports, and then reports everything new until ctx ends. Then it
// ends all processes of the rehearsal and removes its files, unless a [Control] has done so.
func (p Delivery) Hold(ctx context.Context, report func(Report) error) error {
	own := &rehearsal{Delivery: p, ranks: map[string]*said{}, before: smoke.SharedMemory(shm)}
	if err := own.deliver(); err != nil {
		return report(Report{Undelivered: err.Error()})
	}
	rehearsals.Lock()
	rehearsals.of[p.ID] = own
	rehearsals.Unlock()
	defer func() {
		own.end()
		rehearsals.Lock()
		delete(rehearsals.of, p.ID)
		rehearsals.Unlock()
	}()
	if err := report(Report{}); err != nil {
		return err
	}
	told := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookTime):
		}
		own.mu.Lock()
		fresh := Report{Ended: !own.isOver && own.program != nil && own.program.HasEnded()}
		fresh.Lines = own.news()
		own.mu.Unlock()
		if len(fresh.Lines) > 0 || fresh.Ended && !told {
			told = told || fresh.Ended
			if err := report(fresh); err != nil {
				return err
			}
		}
	}
}

// deliver writes the script. It needs a directory that does not exist yet, so that nobody else can
// have put anything into it.
func (p *rehearsal) deliver() error {
	if err := os.Mkdir(p.own(), 0o700); err != nil {
		return err
	}
	err := os.WriteFile(p.Path(), []byte(p.Text), 0o600)
	if err != nil {
		os.RemoveAll(p.own())
	}
	return err
}

// news returns the new lines of the ranks, with a line for each rank that has vanished. A process
// that a signal ends, or that leaves without running Python's handlers, has no last words. A rank
// that was never seen alive may be in another process table, and nothing is said about it.
func (p *rehearsal) news() (all []Line) {
	var gone []*said
	for _, rank := range p.ranks {
		if err := syscall.Kill(rank.last.PID, 0); err == nil {
			if !rank.alive {
				rank.alive, rank.elastic = true, elastic(rank.last.PID)
			}
		} else if rank.alive && errors.Is(err, syscall.ESRCH) && !p.isOver {
			gone = append(gone, rank)
		}
	}
	all = p.lines() // only now, so that the last words of those that are gone are read first
	for _, rank := range gone {
		if rank.last.Event != "failed" && rank.last.Event != "ended" {
			rank.last.Event, rank.last.How = "ended", facts.EndVanished
			all = append(all, rank.last)
		}
	}
	return all
}

// lines returns the complete lines that the ranks have written since the last call.
func (p *rehearsal) lines() (all []Line) {
	files, _ := filepath.Glob(filepath.Join(p.own(), "rank-*")) // never fails, because the ID has no special character
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			continue // removed since
		}
		rank := p.ranks[name]
		if rank == nil {
			rank = &said{}
			rank.last.PID, _ = strconv.Atoi(strings.TrimPrefix(filepath.Base(name), "rank-"))
			p.ranks[name] = rank
		}
		_, _ = file.Seek(int64(rank.read), io.SeekStart)
		text, _ := io.ReadAll(io.LimitReader(file, 256<<10)) // the rest comes with the next look
		file.Close()
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			rank.read += len(line)
			var l Line
			if json.Unmarshal(line, &l) == nil {
				l.PID = rank.last.PID
				rank.last = l
				all = append(all, l)
			}
		}
	}
	return all
}

// Control tells a node to start a launcher, or to end the rehearsal.
type Control struct {
	ID      string          `json:"id"`
	Command []string        `json:"command,omitempty"` // starts this launcher; empty to end the rehearsal
	Dir     string          `json:"dir,omitempty"`     // its working directory
	Env     []facts.Setting `json:"env,omitempty"`     // variables in addition to the login's
	// Python is the path of the launch's interpreter, "" if unknown. A launcher without a path is
	// taken from its directory if it is there, because the environment that is active where the
	// user types the command may not be active in this process.
	Python string `json:"python,omitempty"`
}

// Result is the answer to a control.
type Result struct {
	Problem string                  `json:"problem,omitempty"`
	Program *facts.RehearsedProgram `json:"program,omitempty"`
	Lines   []Line                  `json:"lines,omitempty"`
	Ending  []string                `json:"ending,omitempty"`
	Left    []string                `json:"left,omitempty"`
}

// Run carries out the control.
func (c Control) Run(context.Context) Result {
	rehearsals.Lock()
	own := rehearsals.of[c.ID]
	rehearsals.Unlock()
	if own == nil {
		return Result{Problem: "the rehearsal has ended"}
	}
	if len(c.Command) == 0 {
		return own.end()
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.isOver || own.program != nil {
		return Result{Problem: "the rehearsal has ended"}
	}
	if beside := filepath.Join(filepath.Dir(c.Python), c.Command[0]); c.Python != "" && !strings.Contains(c.Command[0], "/") {
		if _, err := os.Stat(beside); err == nil {
			c.Command[0] = beside
		}
	}
	own.program = Start(c.ID, c.Command, c.Dir, c.Env)
	return Result{Program: own.program.Facts()}
}

// end ends all processes of the rehearsal on this node and removes its files. Further calls do
// nothing.
func (p *rehearsal) end() (done Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isOver {
		return Result{Problem: "the rehearsal has ended"}
	}
	p.isOver = true
	wasRunning := p.program != nil && !p.program.HasEnded()
	swept := Sweep(p.ID)
	done.Ending, done.Left = swept.Ended, swept.Left
	for _, rank := range p.ranks {
		if rank.elastic != "" {
			if err := os.RemoveAll(rank.elastic); err != nil {
				done.Left = append(done.Left, err.Error())
			}
		}
	}
	if p.program != nil {
		p.program.await(2 * time.Second)
		done.Program = p.program.Facts()
	}
	if wasRunning { // the sweep has ended it
		done.Program.ExitCode, done.Program.Problem = -1, stillRunning
	}
	done.Lines = p.lines()
	if err := os.RemoveAll(p.own()); err != nil {
		done.Left = append(done.Left, err.Error())
	}
	done.Left = append(done.Left, smoke.RemoveSince(shm, p.before)...)
	return done
}
