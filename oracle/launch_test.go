// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"preflight/testhosts"
)

//go:embed train.py
var training []byte

// runner is an installed DeepSpeed.
type runner struct {
	version  string
	bin      string        // the directory of its commands
	patience time.Duration // how long the ranks wait for each other
}

// findRunners returns the releases that setup.sh installs together with a matching torch, by
// version.
var findRunners = sync.OnceValues(func() (map[string]runner, error) {
	all := map[string]runner{}
	for _, name := range []string{"2.4", "2.15"} {
		bin := filepath.Dir(named(name).python)
		began := time.Now()
		out, err := exec.Command(filepath.Join(bin, "python"), "-W", "ignore", "-c",
			"import torch, deepspeed.launcher.launch; print(deepspeed.__version__)").Output()
		words := strings.Fields(string(out))
		if err != nil || len(words) == 0 {
			return nil, fmt.Errorf("DeepSpeed for torch %s is missing: run oracle/setup.sh: %w", name, err)
		}
		// Nodes that share this machine import torch one after another.
		version := words[len(words)-1]
		all[version] = runner{version: version, bin: bin, patience: 8*time.Second + 3*time.Since(began)}
	}
	return all, nil
})

func runners(t *testing.T) map[string]runner {
	t.Helper()
	all, err := findRunners()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLaunch lets the real deepspeed launch a training on two or three hosts over the real pdsh, and runs
// preflight for the same command. preflight must pass exactly the commands that work. For all
// others it must say what is wrong and on which machine.
func TestLaunch(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("namespace hosts need root")
	}
	binary := preflight(t)
	installed := runners(t)
	for _, f := range flaws {
		for _, version := range f.releases() {
			name := fmt.Sprintf("deepspeed%s-%s", version, f.name)
			a := attempt{flaw: f, runner: installed[version], binary: binary, name: name}
			if f.found == nil {
				a.patience = time.Minute // the limit may be long if no rank waits in vain
			}
			t.Run(name, func(t *testing.T) {
				if a.bin == "" {
					t.Fatalf("DeepSpeed %s is needed: run oracle/setup.sh", version)
				}
				t.Parallel() // some of the rows mostly wait
				a.run(t)
			})
		}
	}
}

// overhead is the time that preflight may add to a launch.
const overhead = 2 * time.Second

// TestLaunchOverhead measures how much longer a working launch takes with "preflight --" in front
// of it.
func TestLaunchOverhead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("namespace hosts need root")
	}
	a := attempt{flaw: flaw{nodes: 4}, runner: runners(t)[newestDeepSpeed], binary: preflight(t)}
	c := a.raise(t, "overhead")
	judge := []string{a.binary, "--accelerator", "cpu"}
	var bare, judged, wrapped, more []time.Duration
	for round := range 4 {
		without := a.time(t, c, len(a.hosts()), a.words()...)
		alone := a.time(t, c, 0, slices.Concat(judge, []string{"--dry-run", "--"}, a.words())...)
		with := a.time(t, c, len(a.hosts()), slices.Concat(judge, []string{"--"}, a.words())...)
		if round > 0 { // the first round does not count: it fills caches and installs the agent on the nodes
			bare, judged, wrapped, more = append(bare, without), append(judged, alone), append(wrapped, with), append(more, with-without)
		}
	}
	for _, times := range [][]time.Duration{bare, judged, wrapped, more} {
		slices.Sort(times)
	}
	t.Logf("four nodes: %v without preflight, %v with it: %v more; the checks alone take %v", bare, wrapped, more, judged)
	// The difference varies mostly because of the time that Python takes to import torch. The time
	// of preflight itself hardly varies.
	if median := judged[1]; median > overhead {
		t.Errorf("preflight costs %v, and may cost %v", median, overhead)
	}
}

// time runs a working command in which the given number of ranks train, and returns the duration of
// the command.
func (a attempt) time(t *testing.T, c *testhosts.Cluster, ranks int, words ...string) time.Duration {
	t.Helper()
	cmd := a.onHead(t.Context(), c, words...)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if trained := ranksIn(t, string(out)); err != nil || len(trained) != ranks {
		t.Fatalf("%v: %v, %d ranks\n%s", words, err, len(trained), out)
	}
	return time.Since(began).Round(time.Millisecond)
}

// buildPreflight builds the program that users run, and returns its path.
var buildPreflight = sync.OnceValues(func() (string, error) {
	if out, err := exec.Command("make", "-C", "..", "build").CombinedOutput(); err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	return filepath.Abs("../bin/preflight")
})

// preflight returns the path of the program that users run.
func preflight(t *testing.T) string {
	t.Helper()
	path, err := buildPreflight()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// attempt is one launch with one flaw, on its own cluster.
type attempt struct {
	flaw
	runner
	name   string
	binary string // path of preflight
	dir    string // the working directory of the launch, with the training in it
}

func (a attempt) run(t *testing.T) {
	c := a.raise(t, "launch")
	if a.plant != nil {
		if err := a.plant(t.Context(), c, a); err != nil {
			t.Fatal(err)
		}
	}
	verdict := a.judge(t, c)
	works, ended := a.works(), ended{}
	if !*unlaunched {
		ended = a.launch(t, c)
		works = ended.trouble == ""
	}
	if *logs && ended.trouble != "" {
		if err := os.WriteFile(filepath.Join("../explain/testdata/logs", a.name+".log"), []byte(a.excerpt(ended, c.Head.Name)), 0o644); err != nil {
			t.Error(err)
		}
	}
	t.Logf("the training works: %v, after %.1f s: %s\npreflight ended with %d and found %q %s",
		works, ended.seconds, ended.trouble, verdict.ExitCode, verdict.named("fail"), verdict.complaint)
	switch {
	case works != a.works():
		t.Errorf("the training works: %v, want %v\n%s", works, a.works(), ended.log)
	case works != (verdict.ExitCode == 0) && a.warned == "":
		t.Errorf("the training works: %v, and preflight ends with %d: %s %+v", works, verdict.ExitCode, verdict.complaint, verdict.Findings)
	}
	if found := verdict.named("fail"); !slices.Equal(found, a.found) {
		t.Errorf("preflight finds %q, want %q: %s %+v", found, a.found, verdict.complaint, verdict.Findings)
	}
	if warned := verdict.named("warn"); a.warned != "" && !slices.Contains(warned, a.warned) {
		t.Errorf("preflight warns of %q, want %q among it: %+v", warned, a.warned, verdict.Findings)
	}
	if a.refused == "" != (verdict.complaint == "") || !strings.Contains(verdict.complaint, a.refused) {
		t.Errorf("preflight refuses with %q, want %q", verdict.complaint, a.refused)
	}
}

// raise starts hosts that can see the training, DeepSpeed and preflight.
func (a *attempt) raise(t *testing.T, name string) *testhosts.Cluster {
	t.Helper()
	a.dir = t.TempDir()
	venvs := filepath.Join(a.bin, "../..")
	nodes := flaw{nodes: a.nodes}.hosts()
	c := testhosts.RaiseFor(t, testhosts.Options{Name: name, Nodes: len(nodes), Slots: 1, Share: []string{a.dir, filepath.Dir(a.binary), venvs}})
	for file, text := range map[string]string{
		"train.py": string(training), "hostfile": cmp.Or(a.hostfile, strings.Join(nodes, " slots=1\n")+" slots=1\n"),
		".deepspeed_env": a.envFile, "expected": a.expected,
	} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(a.dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// words returns the command line.
func (a attempt) words() []string {
	words := append([]string{filepath.Join(a.bin, "deepspeed"), "--hostfile", "hostfile"}, a.options...)
	words = append(words, "train.py", "--patience", strconv.Itoa(int(a.patience.Seconds())))
	return append(words, a.arguments...)
}

// onHead returns a Cmd that runs on the launching machine, in the directory of the launch.
func (a attempt) onHead(ctx context.Context, c *testhosts.Cluster, words ...string) *testhosts.Cmd {
	cmd := c.Head.Command(ctx, words...)
	cmd.Dir = a.dir
	cmd.Env = slices.Concat(cmd.Env, []string{"DS_ACCELERATOR=cpu"}, a.env)
	return cmd
}

// ended is the result of a launch.
type ended struct {
	trouble string // how the launch differs from what was intended, "" if it does not
	log     string
	seconds float64
}

// trained is what a rank prints at the end of its training.
type trained struct {
	Rank      int
	Host      string
	Arguments []string
}

// launch runs the command until it ends, or until it can no longer succeed.
func (a attempt) launch(t *testing.T, c *testhosts.Cluster) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*a.patience)
	defer cancel()
	cmd := a.onHead(ctx, c, a.words()...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = time.Second // pdsh outlives deepspeed and ends with the cluster
	began := time.Now()
	err := cmd.Run()
	end := ended{log: log.String(), seconds: time.Since(began).Seconds()}
	switch ranks := ranksIn(t, end.log); {
	case ctx.Err() != nil:
		end.trouble = "it hangs"
	case err != nil:
		end.trouble = err.Error()
	default:
		end.trouble = a.rankDifference(ranks)
	}
	return end
}

// ranksIn returns the ranks that report that they have trained.
func ranksIn(t *testing.T, log string) []trained {
	t.Helper()
	var all []trained
	for line := range strings.Lines(log) {
		if _, text, said := strings.Cut(line, "trained {"); said {
			var rank trained
			if err := json.Unmarshal([]byte("{"+text), &rank); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			all = append(all, rank)
		}
	}
	slices.SortFunc(all, func(x, y trained) int { return x.Rank - y.Rank })
	return all
}

// rankDifference returns how the ranks differ from the intended ranks.
func (a attempt) rankDifference(ranks []trained) string {
	var hosts []string
	for _, rank := range ranks {
		hosts = append(hosts, rank.Host)
		if !slices.Equal(rank.Arguments, a.arguments) {
			return fmt.Sprintf("rank %d was given %q for %q", rank.Rank, rank.Arguments, a.arguments)
		}
	}
	if want := a.hosts(); !slices.Equal(hosts, want) {
		return fmt.Sprintf("the ranks ran on %v, not on %v", hosts, want)
	}
	return ""
}

// verdict is preflight's answer for a launch. It is a report, or the reason why there is no report.
type verdict struct {
	report
	complaint string
}

// named returns the checks with the given verdict, each with the nodes that it names.
func (v verdict) named(verdict string) []string {
	named := map[string]bool{}
	for _, f := range v.Findings {
		if f.Verdict == verdict {
			named[strings.Join(append([]string{f.Check}, f.Nodes...), " ")] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// judge runs preflight for the launch.
func (a attempt) judge(t *testing.T, c *testhosts.Cluster) verdict {
	t.Helper()
	argv := []string{a.binary, "--dry-run", "--format", "json", "--accelerator", "cpu", "--timeout", "30s", "--"}
	return judged(t, a.onHead(t.Context(), c, append(argv, a.words()...)...))
}

// judged runs a preflight command that prints JSON, and returns the verdict.
func judged(t *testing.T, cmd *testhosts.Cmd) verdict {
	t.Helper()
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if len(out) == 0 {
		return verdict{report: report{ExitCode: cmd.ProcessState.ExitCode()}, complaint: complaint.String()}
	}
	var v verdict
	if err := json.Unmarshal(out, &v.report); err != nil {
		t.Fatalf("%v in %q\n%s", err, out, complaint.String())
	}
	if v.ExitCode != cmd.ProcessState.ExitCode() {
		t.Errorf("preflight ends with %d and reports %d", cmd.ProcessState.ExitCode(), v.ExitCode)
	}
	return v
}

// numbers matches the numbers in which otherwise equal lines differ.
var numbers = regexp.MustCompile("0x[0-9a-f]+|[0-9]+")

// excerpt returns a log for the corpus of explain. It has no details of this machine, and no line
// is repeated more often than there are nodes.
func (a attempt) excerpt(end ended, head string) string {
	var kept strings.Builder
	said := map[string]int{}
	whole := fmt.Sprintf("DeepSpeed %s, %s: %s after %.1f s\n%s", a.version, a.flaw.name, end.trouble, end.seconds, end.log)
	for line := range strings.Lines(strings.NewReplacer(a.dir, "/shared", filepath.Dir(a.bin), "/venv", head, "head").Replace(whole)) {
		gist := numbers.ReplaceAllString(line, "")
		if said[gist]++; said[gist] <= 4 {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
