// SPDX-License-Identifier: Apache-2.0

// Command picture draws the beginning of a saved run as a terminal shows it, and writes it as SVG
// to standard output:
//
//	go run ./docs/picture cmd/preflight/demo.json > docs/report.svg
//
// With -demo, the picture moves: it replays what a terminal shows during make demo.
//
// It draws the lines that package report writes, and adds no words of its own.
package main

import (
	"bytes"
	_ "embed"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"preflight"
	"preflight/checks"
	"preflight/report"
)

// Size of the terminal in characters, size of a character in pixels, and margin in pixels.
const (
	columns, rows = 100, 36
	wide, high    = 8.4, 19.0
	margin        = 16.0
)

// start is what preflight demo prints before it checks the hosts.
//
//go:embed start.txt
var start string

func main() {
	moving := flag.Bool("demo", false, "replay make demo")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: picture [-demo] RUN.json")
		os.Exit(2)
	}
	saved, err := os.Open(flag.Arg(0))
	if err == nil {
		err = draw(os.Stdout, saved, *moving)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// draw applies today's checks to the saved run, as preflight judge does, and draws the report.
func draw(w io.Writer, saved io.Reader, moving bool) error {
	run, err := report.Read(saved)
	if err != nil {
		return err
	}
	judged := preflight.Judge(run.Fleet, run.Launch, checks.DefaultPolicy())
	judged.Hostfile, judged.Began, judged.Seconds = run.Hostfile, run.Began, run.Seconds
	var text bytes.Buffer
	if err := report.Text(&text, judged, report.Style{Width: columns, Color: true}); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	before := []string{"$ preflight -H hostfile"}
	if moving {
		before = append([]string{"$ make demo"}, strings.Split(start, "\n")...)
	}
	lines = append(before, lines...)
	if len(lines) > rows {
		lines = append(lines[:rows-1], "…")
	}
	if !moving {
		return screen(w, lines, nil)
	}
	appears := make([]float64, len(lines))
	for i := range lines {
		switch {
		case i == 0:
			appears[i] = 0.5
		case i <= len(before):
			appears[i] = appears[i-1] + 0.5
		case i == len(before)+1:
			appears[i] = appears[i-1] + 3 // preflight is checking
		default:
			appears[i] = appears[i-1] + 0.05
		}
	}
	return screen(w, lines, appears)
}

// cycle is the time in seconds after which a moving picture begins again.
const cycle = 24

// screen writes lines on a dark background. The lines may contain a terminal's colour codes. If
// appears is not nil, it has the second of the cycle in which each line appears.
func screen(w io.Writer, lines []string, appears []float64) error {
	var out bytes.Buffer
	width, height := 2*margin+columns*wide, 2*margin+float64(len(lines))*high
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">
<style>text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d4d4d4; white-space: pre } .bold { font-weight: bold } .faint { fill: #8b949e } .red { fill: #ff7b72 } .green { fill: #7ee787 } .yellow { fill: #e3b341 } .magenta { fill: #d2a8ff }</style>
<rect width="100%%" height="100%%" rx="8" fill="#161b22"/>
`, width, height, "a report of preflight on eight nodes")
	if appears != nil { // CSS, because pages such as README show pictures without scripts
		out.WriteString("<style>")
		for i, at := range appears {
			fmt.Fprintf(&out, "@keyframes l%d { 0%%, %.2f%% { opacity: 0 } %.2f%%, 100%% { opacity: 1 } } ", i, 100*at/cycle, 100*at/cycle+0.01)
		}
		out.WriteString("@media (prefers-reduced-motion) { text { animation: none !important } }</style>\n")
	}
	for i, line := range lines {
		moves := ""
		if appears != nil {
			moves = fmt.Sprintf(` style="animation: l%d %ds infinite"`, i, cycle)
		}
		fmt.Fprintf(&out, `<text x="%.0f" y="%.0f" xml:space="preserve"%s>`, margin, margin+(float64(i)+0.75)*high, moves)
		for _, part := range parts(line) {
			class := strings.Join(part.classes, " ")
			if class != "" {
				fmt.Fprintf(&out, `<tspan class="%s">`, class)
			}
			if err := xml.EscapeText(&out, []byte(part.text)); err != nil {
				return err
			}
			if class != "" {
				out.WriteString("</tspan>")
			}
		}
		out.WriteString("</text>\n")
	}
	out.WriteString("</svg>\n")
	_, err := w.Write(out.Bytes())
	return err
}

// part is a piece of text with one style.
type part struct {
	text    string
	classes []string
}

// rendition matches a change of style (ECMA-48, 8.3.117, SGR).
var rendition = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// looks maps the SGR parameters that package report uses to CSS classes.
var looks = map[string]string{"1": "bold", "2": "faint", "90": "faint", "91": "red", "92": "green", "93": "yellow", "95": "magenta"}

// parts splits a line where its style changes, and cuts it at the width of the screen.
func parts(line string) (all []part) {
	left, classes := columns, []string(nil)
	for line != "" && left > 0 {
		at := rendition.FindStringSubmatchIndex(line)
		text, rest := line, ""
		if at != nil {
			text, rest = line[:at[0]], line[at[1]:]
		}
		if length := utf8.RuneCountInString(text); length > left {
			text, rest = string([]rune(text)[:left-1])+"…", ""
		}
		left -= utf8.RuneCountInString(text)
		if text != "" {
			all = append(all, part{text, classes})
		}
		if rest == "" {
			break
		}
		classes = nil
		for code := range strings.SplitSeq(line[at[2]:at[3]], ";") {
			if look := looks[code]; look != "" {
				classes = append(classes, look)
			}
		}
		line = rest
	}
	return all
}
