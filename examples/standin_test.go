// SPDX-License-Identifier: Apache-2.0

// Package examples holds what people copy: preflight where they work. Its tests run
// every one of them, or hold it against what its platform demands.
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

// TestMain lets the test binary be preflight on a cluster that was recorded: the
// examples find it by that name on their PATH.
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

// ofTheLaunch are the flags that say which nodes to reach and how. A recording knows that
// of itself, so what they say is held to preflight predict, which reaches nobody.
var ofTheLaunch = []string{"-H", "--hostfile", "--launcher", "--timeout", "--via", "--rendezvous", "--rdzv-endpoint"}

// misused is the exit code where the real preflight refuses a flag.
const misused = 70

// remarks are lines of a hostfile that may name other nodes than the file lists.
var remarks = regexp.MustCompile(`(?m)^#.*$`)

// standIn has the real preflight judge the recording instead of reaching nodes, and
// becomes the command behind a "--" where that passes. The real one reads all flags, the
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
		if text, err := os.ReadFile(command[at+1]); err == nil { // a list of good hosts
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

// parted are the flags of the launch, of which a hostfile with its whole path lies at the
// desk as under a root of its own, and the others.
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

// built is preflight, once for all tests.
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

// A fleet is what the stand-in judges: a recording and where to look in it.
type fleet struct{ nodes, only string }

var (
	faulty  = fleet{}                                                 // eight nodes with eight faults
	healthy = fleet{nodes: "w1,w7", only: "ssh-*,shm-writable,drift"} // two of them, where nothing is wrong with these
	dark    = fleet{nodes: "w6", only: "shm-writable"}                // the one that was not reached
)

// file is the recording with the nodes of the fleet only.
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

// narrowed writes a recording with some of its nodes to another path, which it returns.
// It panics where that cannot be: it runs in the stand-in too, where no test is.
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

// desk is where an example runs: a working directory, and programs that stand in for
// those of a cluster and note how they were called.
type desk struct {
	dir, calls string
	env        map[string]string
}

// stands are what a cluster has and this machine may not.
var stands = []string{"deepspeed", "scontrol", "srun", "logger"}

// newDesk has hostfiles of all nodes where the example says that they are.
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

// run starts a program at the desk; out is what it printed.
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

// listed are the eight nodes of the recording as a hostfile has them.
var listed = func() (text string) {
	for node := range 8 {
		text += fmt.Sprintf("w%d slots=8\n", node+1)
	}
	return text
}()

// golden commits a baseline at the desk: the recorded fleet as it is, but for the text
// that has changed since, where was is not "".
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

// called is what the stand-ins noted, "" where none was called.
func (d *desk) called(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(d.calls)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// wrote is a file that the example left at the desk.
func (d *desk) wrote(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
