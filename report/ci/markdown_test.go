// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/report"
	"preflight/testhosts/reporttest"
)

func TestMarkdown(t *testing.T) {
	reporttest.Golden(t, "summary.md", []byte(reporttest.Rendered(t, Markdown, reporttest.Failing())))
	reporttest.Golden(t, "summary_waiving.md", []byte(reporttest.Rendered(t, Markdown, reporttest.Waiving())))
	reporttest.Golden(t, "summary_passing.md", []byte(reporttest.Rendered(t, Markdown, reporttest.Passing())))
}

// onPage lists the elements that a page may have. Links, images and scripts are not among them.
var onPage = []string{"page", "h2", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "strong", "details", "summary", "ul", "li", "br"}

// TestMarkdownOnGitHub renders the page with GitHub's own parser and checks the result.
func TestMarkdownOnGitHub(t *testing.T) {
	for name, r := range reporttest.Cases() {
		text := reporttest.Rendered(t, Markdown, r)
		page := markdownPage(t, text)
		for _, element := range page.elements {
			if !slices.Contains(onPage, element) {
				t.Errorf("%s: there is a <%s> on the page:\n%s", name, element, text)
			}
		}
		for _, row := range page.rows {
			if row != 6 && row != 3 {
				t.Errorf("%s: a row of %d cells:\n%s", name, row, text)
			}
		}
		if strings.ContainsAny(page.prose, "@#") || strings.Contains(page.prose, ":100:") {
			t.Errorf("%s: GitHub would make something of a word in %q", name, page.prose)
		}
		var want []string
		for _, p := range report.WordsOf(r).Problems(false) {
			for _, paste := range report.Pastes(report.Steps(p.Finding)) {
				want = append(want, report.EscapeLines(strings.Join(paste.Commands, "\n"))+"\n")
			}
		}
		if diff := cmp.Diff(want, page.blocks); diff != "" {
			t.Errorf("%s: blocks of code (-want +got):\n%s", name, diff)
		}
	}
}

// TestMarkdownKeepsWords checks that the rendered page shows escaped text as it was before
// escaping.
func TestMarkdownKeepsWords(t *testing.T) {
	for _, text := range []string{
		"<a> & *b* _c_ [d](e) | \\| ~f~ $g$ user@w1 http://h w1:100: &lt; #1 `i`",
		"a_b __c__ d__e _f g_ h._i_ (_j_) k_ _l _", "w[1-3] [m][n] ![o](p) [q] [[r]] [^s] [t]: u ](v) [w](",
		">=570.86 <4 --> <!-- x -->",
	} {
		r := reporttest.Failing()
		r.Findings[0].Summary, r.Findings[0].Got = text, "a"+text
		page := markdownPage(t, reporttest.Rendered(t, Markdown, r))
		if !slices.Contains(page.cells, text) || !slices.Contains(page.cells, "a"+text) {
			t.Errorf("%q is not in a cell: %q", text, page.cells)
		}
	}
}

// TestMarkdownIsReadable checks that people can read the page in a log or a mail, which does not
// render Markdown.
func TestMarkdownIsReadable(t *testing.T) {
	for text, want := range map[string]string{
		"w[1-3], gpu[07,09]":     "w[1-3], gpu[07,09]",
		"NCCL_SOCKET_IFNAME":     "NCCL_SOCKET_IFNAME",
		"d__e":                   "d__e",
		"want >=570.86":          "want >=570.86",
		"at 19:20 on w1:29500:":  "at 19:20 on <code>w1:29500:</code>",
		"http://h [issue:1]":     "<code>http&#58;//h</code> <code>[issue:1]</code>",
		"[a](b)":                 "[a&#93;(b)",
		"_a_ __init__":           "&#95;a&#95; &#95;&#95;init&#95;&#95;",
		"<b> & `c` | *d* ![e](f": "&#60;b> &#38; &#96;c&#96; &#124; &#42;d&#42; !&#91;e&#93;(f",
	} {
		if got := prose(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// TestNothingIsHalfThere checks that names and commands are never cut.
func TestNothingIsHalfThere(t *testing.T) {
	for text, want := range map[string]string{
		"gpu-idle, shm-size":   "gpu-idle, …",
		"gpu-idle shm-size":    "gpu-idle …",
		"w1,w2,w33,w4":         "w1,w2,w33,w4",
		"one two thr":          "one two thr",
		"one two thre":         "one two thre",
		"one two thre four":    "one two …",
		"one two thr four":     "one two thr…",
		"a onewordandnothing":  "a onewordan…",
		"onewordandnothing":    "onewordandn…",
		"ünïcödé, nöthïng mör": "ünïcödé, …",
	} {
		if got := report.Shorten(text, 12); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	r := reporttest.Passing()
	r.Checks = nil
	for i := range 60 {
		r.Checks = append(r.Checks, checks.Outcome{Check: fmt.Sprint("a-long-check-", i), Verdict: checks.Pass})
	}
	long := "echo " + strings.Repeat("x", mostInBlock)
	r.Findings = []checks.Finding{{Check: "drift", Verdict: checks.Fail, Fix: []string{"ssh w1 true", long, "ssh w2 true"}}}
	text := reporttest.Rendered(t, Markdown, r)
	if !strings.Contains(text, "a-long-check-58, a-long-check-59\n") {
		t.Error("the list of what passed is cut")
	}
	if want := "```sh\nssh w1 true\n```\n\nand 2 more commands, in the text and JSON reports\n"; !strings.Contains(text, want) {
		t.Errorf("no whole commands:\n%.300s", text)
	}
}

func TestMarkdownFits(t *testing.T) {
	r := reporttest.Failing()
	for i := range 3000 {
		f := r.Findings[1]
		f.Summary = fmt.Sprint(i, " ", strings.Repeat("`", 2000))
		f.Fix = []string{strings.Repeat("`", 100_000)}
		r.Findings = append(r.Findings, f)
	}
	for i := range 3000 {
		r.Diff = append(r.Diff, checks.FactDiff{Fact: fmt.Sprint("f", i, "x"), Groups: []checks.FactGroup{
			{Value: json.RawMessage(`"` + strings.Repeat("<", 9000) + `"`), Nodes: []string{"w1"}}, {Nodes: []string{"w2"}}}})
	}
	text := reporttest.Rendered(t, Markdown, r)
	if len(text) > 65_536 {
		t.Errorf("%d bytes, a comment takes 65,536 characters", len(text))
	}
	if !strings.Contains(text, "**Cut here:** ") || !strings.Contains(text, " more, in the text and JSON reports") {
		t.Error("nothing says that something is missing")
	}
	if ends := strings.Index(text, " more, in the text"); ends > 41_000 {
		t.Errorf("the table takes %d bytes, which leaves no room for what mends the first findings", ends)
	}
	if strings.Contains(reporttest.Rendered(t, Markdown, reporttest.Failing()), "Cut here") {
		t.Error("a short report is said to be cut")
	}
	for _, row := range markdownPage(t, text).rows {
		if row != 6 {
			t.Errorf("a row of %d cells", row)
		}
	}
}

// parsed holds the parts of a page as a browser would see them.
type parsed struct {
	elements []string
	rows     []int    // number of cells of each row
	cells    []string // text of each cell
	blocks   []string // the text of each block of code
	prose    string   // all text that is not code
}

// markdownPage parses Markdown with cmark-gfm, the parser of github.com.
func markdownPage(t *testing.T, text string) (page parsed) {
	t.Helper()
	if _, err := exec.LookPath("cmark-gfm"); err != nil {
		t.Skip("NOT RUN: Markdown as GitHub reads it, because there is no cmark-gfm")
	}
	parser := exec.Command("cmark-gfm", "--unsafe", "-e", "table", "-e", "autolink", "-e", "strikethrough", "-e", "tasklist")
	parser.Stdin = strings.NewReader(text)
	html, err := parser.Output()
	if err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader("<page>" + string(html) + "</page>"))
	decoder.Strict, decoder.AutoClose = false, []string{"br"}
	var open []string
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return page
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, html)
		}
		switch token := token.(type) {
		case xml.StartElement:
			open = append(open, token.Name.Local)
			page.elements = append(page.elements, token.Name.Local)
			switch token.Name.Local {
			case "tr":
				page.rows = append(page.rows, 0)
			case "th", "td":
				page.rows[len(page.rows)-1]++
				page.cells = append(page.cells, "")
			case "pre":
				page.blocks = append(page.blocks, "")
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if slices.Contains(open, "td") {
				page.cells[len(page.cells)-1] += string(token)
			}
			switch {
			case slices.Contains(open, "pre"):
				page.blocks[len(page.blocks)-1] += string(token)
			case !slices.Contains(open, "code"):
				page.prose += string(token)
			}
		}
	}
}
