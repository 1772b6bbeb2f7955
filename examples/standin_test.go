// SPDX-License-Identifier: Apache-2.0

// Package examples tests the files in this directory. Each test runs the commands of a file, or
// checks the file against the rules of its platform.
package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestMain lets the test binary act as preflight when it is run under the name preflight. The
// examples find the binary in their PATH, and it checks a recorded cluster.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "preflight" {
		os.Exit(standIn(os.Args[1:]))
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// ofTheLaunch lists the flags that select nodes and the way to reach them. A recording has fixed
// nodes, so these flags are checked with preflight predict, which contacts no node.
var ofTheLaunch = []string{"-H", "--hostfile", "--launcher", "--timeout", "--via", "--rendezvous", "--rdzv-endpoint"}

// misused is the exit code of the stand-in if the real preflight rejects a flag.
const misused = 70

// remarks matches the comment lines of a hostfile. They may name nodes that the file does not list.
var remarks = regexp.MustCompile(`(?m)^#.*$`)

// standIn runs the real preflight on the recording instead of on nodes. If preflight passes,
// standIn runs the command after "--" in its own process. The real preflight parses all flags, the
// hostfile and the command.
func standIn(args []string) int {
	mine, command := args, []string(nil)
	if dash := slices.Index(args, "--"); dash >= 0 {
		mine, command = args[:dash], args[dash+1:]
	}
	dry := slices.Contains(mine, "--dry-run")
	mine = slices.DeleteFunc(slices.Clone(mine), func(flag string) bool { return flag == "--dry-run" })
	program := os.Getenv("STAND_IN_PROGRAM")
	launch, others := parted(mine)
	predict := append([]string{"predict"}, launch...)
	if command != nil {
		predict = append(append(predict, "--"), command...)
	}
	for _, argv := range [][]string{append(slices.Clone(mine), "--help"), predict} {
		if out, err := exec.Command(program, argv...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s", out)
			return misused
		}
	}
	recorded := os.Getenv("STAND_IN_FLEET")
	if at := slices.Index(command, "--hostfile"); at >= 0 {
		if text, err := os.ReadFile(command[at+1]); err == nil { // the file is a list of good hosts
			recorded = narrowed(recorded, command[at+1]+".json", strings.Fields(remarks.ReplaceAllString(string(text), "")))
		}
	}
	judge := append([]string{"judge", recorded}, others...)
	cmd := exec.Command(program, judge...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		fmt.Fprintln(os.Stderr, err)
		return misused
	}
	if len(command) == 0 || dry {
		return 0
	}
	path, err := exec.LookPath(command[0])
	if err == nil {
		err = syscall.Exec(path, command, os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	return misused
}

// parted separates the flags of the launch from the other flags. It resolves an absolute path of a
// hostfile below STAND_IN_ROOT.
func parted(flags []string) (launch, others []string) {
	for i := 0; i < len(flags); i++ {
		if !slices.Contains(ofTheLaunch, flags[i]) || i+1 == len(flags) {
			others = append(others, flags[i])
			continue
		}
		name, value := flags[i], flags[i+1]
		i++
		if filepath.IsAbs(value) {
			value = filepath.Join(os.Getenv("STAND_IN_ROOT"), value)
		}
		launch = append(launch, name, value)
	}
	return launch, others
}

// built is the preflight binary, built once for all tests.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "preflight"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-tags", "netgo,osusergo", "-o", built.dir, "../cmd/preflight")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "preflight")
}

const recording = "../cmd/preflight/demo.json"

// fleet describes what the stand-in checks: the nodes of the recording, and the checks to run.
type fleet struct{ nodes, only string }

var (
	faulty  = fleet{}                                                 // eight nodes with eight faults
	healthy = fleet{nodes: "w1,w7", only: "ssh-*,shm-writable,drift"} // two nodes that pass these checks
	dark    = fleet{nodes: "w6", only: "shm-writable"}                // the node that was not reached
)

// file returns the path of a recording that has only the nodes of the fleet.
func (f fleet) file(t *testing.T) string {
	t.Helper()
	if f.nodes == "" {
		path, err := filepath.Abs(recording)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	return narrowed(recording, filepath.Join(t.TempDir(), "fleet.json"), strings.Split(f.nodes, ","))
}

// narrowed writes a recording with only the given nodes to another path, and returns this path. It
// panics on an error, because the stand-in also calls it outside of a test.
func narrowed(from, to string, nodes []string) string {
	text, err := os.ReadFile(from)
	if err != nil {
		panic(err)
	}
	var saved map[string]any
	if err := json.Unmarshal(text, &saved); err != nil {
		panic(err)
	}
	kept := func(list any) []any {
		return slices.DeleteFunc(list.([]any), func(one any) bool {
			return !slices.Contains(nodes, one.(map[string]any)["name"].(string))
		})
	}
	launch := saved["launch"].(map[string]any)
	saved["nodes"], launch["hosts"] = kept(saved["nodes"]), kept(launch["hosts"])
	if text, err = json.Marshal(saved); err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		panic(err)
	}
	return to
}

// desk is the environment of an example: a working directory, and stand-ins for the programs of a
// cluster, which record their arguments.
type desk struct {
	dir, calls string
	env        map[string]string
}

// stands lists programs that a cluster has and that this machine may lack.
var stands = []string{"deepspeed", "scontrol", "srun", "logger"}

// newDesk makes a desk. It writes a hostfile with all nodes to each of the given paths.
func newDesk(t *testing.T, f fleet, hostfiles ...string) *desk {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	d := &desk{dir: dir, calls: filepath.Join(bin, "calls")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "preflight")); err != nil {
		t.Fatal(err)
	}
	for _, name := range stands {
		script := "#!/bin/sh\n{ echo " + name + ` "$*"; [ -t 0 ] || cat; } >>"$STAND_IN_CALLS"` +
			"\n" + `[ "${STAND_IN_REFUSES:-}" != ` + name + " ] || { echo " + name + " may not; exit 1; }\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range hostfiles {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(listed), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	d.env = map[string]string{
		"PATH": bin + ":/usr/local/bin:/usr/bin:/bin", "HOME": dir, "LC_ALL": "C.UTF-8",
		"STAND_IN_PROGRAM": program(t), "STAND_IN_FLEET": f.file(t), "STAND_IN_CALLS": d.calls, "STAND_IN_ROOT": dir,
	}
	if f.only != "" {
		d.env["PREFLIGHT_ONLY"] = f.only
	}
	return d
}

// run runs a program in the working directory. out is everything that the program printed.
func (d *desk) run(t *testing.T, argv ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = d.dir
	for _, name := range slices.Sorted(maps.Keys(d.env)) {
		cmd.Env = append(cmd.Env, name+"="+d.env[name])
	}
	text, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatalf("%q: %v", argv, err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// listed is a hostfile with the eight recorded nodes.
var listed = func() (text string) {
	for node := range 8 {
		text += fmt.Sprintf("w%d slots=8\n", node+1)
	}
	return text
}()

// golden writes a baseline to golden.json. The baseline is the recording with "was" in place of
// every "is". If was is "", nothing is replaced.
func (d *desk) golden(t *testing.T, was, is string) {
	t.Helper()
	text, err := os.ReadFile(d.env["STAND_IN_FLEET"])
	if err != nil {
		t.Fatal(err)
	}
	if was != "" && !bytes.Contains(text, []byte(is)) {
		t.Fatalf("the recording does not hold %s", is)
	}
	text = bytes.ReplaceAll(text, []byte(is), []byte(was))
	if err := os.WriteFile(filepath.Join(d.dir, "golden.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// called returns the commands that the stand-ins recorded, or "" if there are none.
func (d *desk) called(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(d.calls)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// wrote returns the content of a file that the example wrote.
func (d *desk) wrote(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
