// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"os"
	"preflight/fleet"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// page is a terminal of some width, as far as live uses one. It keeps what
// has scrolled away, and breaks lines that are too long.
type page struct {
	t        *testing.T
	width    int
	rows     [][]rune
	row, col int
	writes   int
}

func (p *page) Write(text []byte) (int, error) {
	p.writes++
	runes := []rune(string(text))
	for i := 0; i < len(runes); i++ {
		for len(p.rows) <= p.row {
			p.rows = append(p.rows, nil)
		}
		switch r := runes[i]; r {
		case '\r':
			p.col = 0
		case '\n': // the kernel makes it \r\n
			p.row, p.col = p.row+1, 0
		case '\x1b':
			i = p.command(runes, i+2)
		default:
			p.put(r)
		}
	}
	for len(p.rows) <= p.row {
		p.rows = append(p.rows, nil)
	}
	return len(text), nil
}

func (p *page) put(r rune) {
	if p.col == p.width {
		p.row, p.col = p.row+1, 0
		p.rows = append(p.rows, nil)
	}
	line := append(p.rows[p.row], []rune(strings.Repeat(" ", max(p.col-len(p.rows[p.row]), 0)))...)
	p.rows[p.row] = append(append(line[:p.col:p.col], r), line[min(p.col+1, len(line)):]...)
	p.col++
}

// command obeys what stands behind ESC [ and returns where it ends.
func (p *page) command(runes []rune, i int) int {
	count := 0
	for ; runes[i] >= '0' && runes[i] <= '9'; i++ {
		count = 10*count + int(runes[i]-'0')
	}
	switch runes[i] {
	case 'A':
		p.row -= count
	case 'K':
		p.rows[p.row] = p.rows[p.row][:min(p.col, len(p.rows[p.row]))]
	case 'J':
		p.rows = p.rows[:min(p.row+1, len(p.rows))]
		p.rows[p.row] = p.rows[p.row][:min(p.col, len(p.rows[p.row]))]
	default:
		p.t.Errorf("a terminal need not know ESC [ %c", runes[i])
	}
	return i
}

func (p *page) String() string {
	var lines []string
	for _, row := range p.rows {
		lines = append(lines, string(row))
	}
	return strings.Join(lines, "\n")
}

// live is progress on a page of a size that the test may change.
func liveOn(t *testing.T, width, height int) (*live, *page, *int) {
	to := &page{t: t, width: width}
	return &live{to: to, awake: make(chan os.Signal, 1), size: func() (int, int) { return width, height }}, to, &width
}

func TestLiveProgress(t *testing.T) {
	l, page, _ := liveOn(t, 60, 24)
	page.Write([]byte("$ preflight\n"))
	p := &Progress{began: start}
	step := func(second float64, want string, moments ...moment) {
		t.Helper()
		for _, m := range moments {
			p.add(at(m.second), m.event)
		}
		l.update(at(second), p, want == "")
		if diff := cmp.Diff("$ preflight\n"+want, page.String()); diff != "" {
			t.Errorf("after %v s: %s", second, diff)
		}
	}
	p.add(start, announced(0, fleet.Reaching, 2).event)
	l.update(at(0.6), p, false)
	if page.String() != "$ preflight\n" {
		t.Errorf("a short run flickers: %q", page)
	}
	step(0.8, "log in        0 of 2 nodes\n",
		node(0, fleet.Reaching, fleet.Began, "w1"), node(0, fleet.Reaching, fleet.Began, "w2"))
	before := page.writes
	step(0.9, "log in        0 of 2 nodes\n")
	if page.writes != before {
		t.Error("nothing is new, and it is drawn again")
	}
	step(3, "log in        1 of 2 nodes; waiting 3 s for w2, 57 s more …\nlook          0 of 2 nodes\n",
		node(0.9, fleet.Reaching, fleet.Ended, "w1"), announced(2.5, fleet.Looking, 2), node(2.5, fleet.Looking, fleet.Began, "w1"))
	step(4, "log in        2 of 2 nodes, 3.5 s\nlook          1 of 2 nodes\n",
		node(3.5, fleet.Reaching, fleet.Ended, "w2"), node(3.5, fleet.Looking, fleet.Ended, "w1"))
	step(4.1, "")
}

// TestLiveProgressOnALowTerminal: lines that do not fit in cannot be drawn over,
// and are not drawn.
func TestLiveProgressOnALowTerminal(t *testing.T) {
	l, page, _ := liveOn(t, 20, 3)
	l.draw([]string{"one", "two", "three"})
	l.draw([]string{"one", "two", "four"})
	if want := "two\nfour\n"; page.String() != want {
		t.Errorf("%q, want %q", page, want)
	}
	l.size = func() (int, int) { return 20, 1 }
	l.draw([]string{"one"})
	if want := "two\nfour\n"; page.String() != want {
		t.Errorf("one row: %q, want %q", page, want)
	}
}

// TestLiveProgressMadeNarrower: the terminal has broken what stands there, and all
// of it is wiped.
func TestLiveProgressMadeNarrower(t *testing.T) {
	l, page, width := liveOn(t, 20, 9)
	page.Write([]byte("$\n"))
	l.draw([]string{"0123456789abcdefgh", "short"})
	*width, page.width = 10, 10
	page.rows = [][]rune{[]rune("$"), []rune("0123456789"), []rune("abcdefgh"), []rune("short"), nil}
	page.row = 4
	l.draw([]string{"0123456789abcdefgh", "short"})
	if want := "$\n01234567…\nshort\n"; page.String() != want {
		t.Errorf("%q, want %q", page, want)
	}
	l.draw(nil)
	if want := "$\n"; page.String() != want {
		t.Errorf("%q is left, want %q", page, want)
	}
}

// TestLiveProgressGoesOn: what the shell wrote while the process was stopped stays.
func TestLiveProgressGoesOn(t *testing.T) {
	l, page, _ := liveOn(t, 20, 9)
	l.draw([]string{"one"})
	page.Write([]byte("Stopped\n"))
	l.awake <- syscall.SIGCONT
	l.draw([]string{"two"})
	if want := "one\nStopped\ntwo\n"; page.String() != want {
		t.Errorf("%q, want %q", page, want)
	}
}
