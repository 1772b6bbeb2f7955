// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// TestDocumentedCommands checks that every command on a page can be typed. Commands that contact no
// node run on the recorded cluster. For other commands the test reads the arguments, predicts the
// launch, and checks the recorded run with the same flags.
func TestDocumentedCommands(t *testing.T) {
	documented := documentedCommands(t)
	if len(documented) < 60 {
		t.Fatalf("only %d commands are documented", len(documented))
	}
	desk(t)
	ran := onlyOnce(ran)
	for line, page := range documented {
		for _, args := range calls(t, line) {
			if err := typed(args, ran); err != nil {
				t.Errorf("%s says `%s`: %v", page, line, err)
			}
		}
	}
}

// openWithCommand lists the pages that may begin with their command, before any sentence.
var openWithCommand = []string{"docs/causes.md", "docs/checks.md", "docs/facts.md", "docs/from-error.md"}

// TestPagesOpenWithACommand tests how every page begins. A sentence below the title says what the
// reader can do with the page, and a command comes before the first section.
func TestPagesOpenWithACommand(t *testing.T) {
	sentence := regexp.MustCompile(`^# .+\n\n[^\s#<>|*~-][^\n]*(?:\n[^\n]+)*[.。]\n\n`)
	bare := regexp.MustCompile("^# .+\n\n```")
	command := regexp.MustCompile("(?m)^```(?:sh|text)\n(?:\\$ )?(?:sudo )?(?:bin/)?(?:preflight|make|go doc) ?")
	for page, text := range pages(t) {
		if !strings.HasPrefix(page, "docs/") {
			continue
		}
		if !sentence.MatchString(text) && !(slices.Contains(openWithCommand, page) && bare.MatchString(text)) {
			t.Errorf("%s does not open with a sentence: %.120q", page, text)
		}
		if opening, _, _ := strings.Cut(text, "\n## "); !command.MatchString(opening) {
			t.Errorf("%s shows no command before its first section: %.120q", page, text)
		}
	}
}

// TestDocumentedTargets checks that the Makefile has every target that a page names.
func TestDocumentedTargets(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile("(?m)(?:^|`)(?:sudo )?make ([a-z][a-z -]*[a-z])")
	found := 0
	for page, text := range pages(t) {
		for _, match := range target.FindAllStringSubmatch(text, -1) {
			for name := range strings.FieldsSeq(match[1]) {
				found++
				if !bytes.Contains(makefile, []byte("\n"+name+":")) {
					t.Errorf("%s says make %s, and the Makefile has no %s", page, match[1], name)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d targets are documented", found)
	}
}

// TestDocumentedLinks checks that the links of a page lead to files that exist.
func TestDocumentedLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	found := 0
	for page, text := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			found++
			if _, err := os.Stat(filepath.Join("../..", filepath.Dir(page), match[1])); err != nil {
				t.Errorf("%s leads to %s, which is not there", page, match[1])
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d links were found", found)
	}
}

// TestSiteHasEveryPage checks that the site has every page exactly once.
func TestSiteHasEveryPage(t *testing.T) {
	text, err := os.ReadFile("../../mkdocs.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, nav, _ := strings.Cut(string(text), "\nnav:\n")
	var sections []map[string][]map[string]string
	if err := yaml.Unmarshal([]byte(nav), &sections); err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, section := range sections {
		for _, page := range slices.Concat(slices.Collect(maps.Values(section))...) {
			shown = slices.AppendSeq(shown, maps.Values(page))
		}
	}
	slices.Sort(shown)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(pages(t))), shown); diff != "" {
		t.Errorf("mkdocs.yml (-pages +nav):\n%s", diff)
	}
}

// pages returns the text of every page that people read, by its path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"README*.md", "CONTRIBUTING.md", "docs/*.md", "examples/README.md", "checks/catalogue/testdata/README.md"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || files == nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[strings.TrimPrefix(file, "../../")] = string(text)
		}
	}
	return all
}

var (
	fenced = regexp.MustCompile("(?ms)^ *```(?:sh|text|yaml)?\n(.*?)^ *```")
	inline = regexp.MustCompile("`([^`\n]+)`")
	// typedHere matches a line of a block that calls preflight. The call is the whole line, or
	// follows a prompt, or is next to the cause that explain prints, or is the command of a
	// container.
	typedHere = regexp.MustCompile(`^(?:\$ +| *before +)?((?:podman run .* |[A-Z_]+=\S+ |env -u \S+ )*(?:bin/)?preflight(?: .*)?)$`)
)

// documentedCommands returns the calls of preflight on all pages, each with one page that contains
// it.
func documentedCommands(t *testing.T) map[string]string {
	all := map[string]string{}
	for page, text := range pages(t) {
		add := func(line string) {
			if call := typedHere.FindStringSubmatch(strings.TrimRight(line, " \n")); call != nil {
				all[call[1]] = page
			}
		}
		for _, block := range fenced.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				add(line)
			}
		}
		for _, code := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			add(strings.ReplaceAll(code[1], `\|`, "|")) // the form of a pipe in a table
		}
	}
	return all
}

// placeholder matches a word that the reader must replace.
var placeholder = regexp.MustCompile(`^[A-Z][A-Z_]+(:[A-Z_]+)?$`)

// replaced returns words that a reader might type instead of a placeholder.
func replaced(word string) []string {
	switch {
	case word == "…" || word == "[-H" || word == "hostfile]":
		return nil
	case word == "COMMAND":
		return []string{"deepspeed", "train.py"}
	case word == "ID":
		return []string{"shm-size"}
	case placeholder.MatchString(word) && strings.Contains(word, ":"):
		return []string{"w1:29500"}
	case placeholder.MatchString(word) && strings.HasPrefix(word, "LOG"):
		return []string{"train.log"}
	}
	return []string{word}
}

// calls returns the arguments of each call of preflight on a line of shell.
func calls(t *testing.T, line string) (all [][]string) {
	t.Helper()
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		t.Errorf("%s: %v", line, err)
		return nil
	}
	config := &expand.Config{
		Env:      expand.ListEnviron("GITHUB_STEP_SUMMARY=summary.md"),
		CmdSubst: func(w io.Writer, _ *syntax.CmdSubst) error { _, err := io.WriteString(w, "1000"); return err }, // for example $(id -u)
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		call, is := node.(*syntax.CallExpr)
		if !is {
			return true
		}
		words, err := expand.Fields(config, call.Args...)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			return true
		}
		at := slices.IndexFunc(words, func(word string) bool { return filepath.Base(word) == "preflight" })
		if at < 0 {
			return true
		}
		args := []string{}
		for _, word := range words[at+1:] {
			args = append(args, replaced(word)...)
		}
		all = append(all, args)
		return true
	})
	return all
}

// desk makes a directory with the files that the documented commands name. It also sets an
// environment without settings of this machine.
func desk(t *testing.T) {
	t.Helper()
	hostfile, err := os.ReadFile("testdata/documented/hostfile")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile("testdata/documented/train.log")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SLURM_JOB_NODELIST", "")
	files := map[string][]byte{
		"hostfile": hostfile, "train.py": []byte("import deepspeed\n"), "ds.json": []byte(`{"train_batch_size": 64}`),
		"train.log": log, "logs/w1.log": log, "logs/w2.log": log, "run.json": recordedRun, "recorded.json": recordedRun, "golden.json": recordedRun, "now.json": recordedRun,
		"conf/hostfile": hostfile, "good": hostfile, "run.sh": []byte("deepspeed --hostfile hostfile train.py\n"),
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// offline lists the commands that contact no node. demo has its own tests on hosts.
var offline = []string{"judge", "diff", "explain", "checks", "facts", "causes", "predict", "completion", "version", "bash", "help"}

// typed runs a call. If the call would contact nodes, typed runs only the parts that need none.
func typed(args []string, ran func([]string) error) error {
	root := rootCommand()
	root.InitDefaultCompletionCmd() // as cobra does when it executes root
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if len(args) == 1 && (args[0] == "--help" || args[0] == "-h" || cmd.ValidateArgs(nil) != nil) { // the call is only the name of a command in a sentence
		return nil
	}
	if slices.Contains(offline, cmd.Name()) && !slices.Contains(args, "-H") || cmd.Name() == "predict" {
		return ran(args)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	words, command := cmd.Flags().Args(), []string(nil)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		command = words[dash:]
	}
	if err := knownFormat(cmd, nil); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(words); err != nil {
		return err
	}
	if _, err := readConfig(cmd, typedLaunch{command: command}); err != nil || cmd.Flags().Lookup("hostfile") == nil || cmd.Flags().Changed("meet") {
		return err
	}
	if !cmd.Flags().Changed("via") && !cmd.Flags().Changed("jobid") { // these flags make preflight ask Slurm or a cluster
		predict := append([]string{"predict"}, takenBy("predict", cmd)...)
		if command != nil {
			predict = append(append(predict, "--"), command...)
		}
		if err := ran(predict); err != nil {
			return err
		}
	}
	if cmd.Name() != "preflight" {
		return nil
	}
	return ran(append([]string{"judge", "recorded.json"}, takenBy("judge", cmd)...))
}

// takenBy returns the flags of a call that another command also has.
func takenBy(other string, cmd *cobra.Command) (flags []string) {
	takes, _, err := rootCommand().Find([]string{other})
	if err != nil {
		panic(err)
	}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if takes.Flags().Lookup(flag.Name) == nil || other == "predict" && slices.Contains([]string{"format", "verbose"}, flag.Name) {
			return
		}
		for _, value := range flagValues(flag) {
			flags = append(flags, "--"+flag.Name+"="+value)
		}
	})
	return flags
}

// onlyOnce caches the results of ran, because many pages lead to the same call.
func onlyOnce(ran func([]string) error) func([]string) error {
	known := map[string]error{}
	return func(args []string) error {
		key := strings.Join(args, "\x00")
		if _, done := known[key]; !done {
			known[key] = ran(args)
		}
		return known[key]
	}
}

// ran runs a call in this process. It accepts any verdict, but returns an error of preflight
// itself.
func ran(args []string) error {
	out, complaints := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = out, complaints }()
	file, err := os.CreateTemp("", "preflight")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if os.Stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		return err
	}
	defer os.Stdout.Close()
	os.Stderr = file
	code := run(args)
	errorOutput, err := os.ReadFile(file.Name())
	if err == nil && bytes.HasPrefix(errorOutput, []byte("preflight: ")) {
		err = fmt.Errorf("preflight %q exits with %d:\n%s", args, code, errorOutput)
	}
	return err
}
