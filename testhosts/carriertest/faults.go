// SPDX-License-Identifier: Apache-2.0

// Package carriertest tests every carrier (ssh, srun and so on) with the same table of faults. A
// carrier must report a fault under the same name as the other carriers, within the deadline, and
// without affecting other nodes. Only tests import it.
package carriertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"preflight/remote"
	"preflight/testhosts/remotetest"
)

// Stand creates carriers that reach stand-ins for nodes. logins maps the name of each node to a
// program that runs its arguments as the node would.
type Stand struct {
	// Raise prepares the stand-ins of all nodes of a test in a shared environment. No row may
	// change the environment, so rows run in parallel. If Raise is nil, each row has its own
	// environment.
	Raise func(t *testing.T, logins map[string]string)
	Open  func(t *testing.T, logins map[string]string) remote.Carrier
	// Blind means that the carrier cannot distinguish a command that hangs from a frozen node.
	Blind bool
	// Calls means that the carrier starts no agent. The nodes connect to the carrier, and the
	// carrier keeps their connections. Logins cannot fail, the exit status of an agent is unknown,
	// and nothing ends an agent that hangs.
	Calls bool
}

// row is a faulty node together with a healthy one.
type row struct {
	fault
	bad, good         string // names of the nodes
	badHome, goodHome string
	logins            map[string]string
}

// ample is the time limit for nodes that answer. nodePatience and callPatience are the limits for
// nodes and for calls that do not answer. Another node must be reached within nodePatience.
const (
	ample        = time.Minute
	nodePatience = 6 * time.Second
	callPatience = 2 * time.Second
)

// fault describes what is wrong with a node.
type fault struct {
	login  string // what the node does instead of running "$@"
	method string // a method of the agent that shows the fault; "" if the fault appears before any call
	params string
	waits  bool // only a timeout reveals the fault

	stage  remote.Stage
	cause  remote.Cause
	blind  remote.Cause // expected instead of cause if the Stand is Blind
	calls  remote.Cause // expected instead of cause and detail if the Stand has Calls
	detail string       // text that one of the details must contain
}

const runs = `exec "$@"`

// says returns a login on which the named program is the given script.
func says(program, script string) string {
	return `mkdir -p "$HOME/bin"; cat >"$HOME/bin/` + program + "\" <<'end'\n#!/bin/sh\n" + script + "\nend\n" +
		`chmod +x "$HOME/bin/` + program + `"; PATH=$HOME/bin:$PATH; export PATH; ` + runs
}

var faults = map[string]fault{
	"no shell":       {login: `echo This account is currently not available.; exit 1`, stage: remote.StageShell, cause: remote.NoShell, detail: "currently not available"},
	"another answer": {login: `echo "only backups here"; exit 1`, stage: remote.StageShell, cause: remote.ForcedCommand, detail: "only backups"},
	"exits":          {login: `exit 0`, stage: remote.StageShell, cause: remote.ShellBroken},
	"stuck":          {login: `exec sleep 100`, waits: true, stage: remote.StageShell, cause: remote.ShellHangs, blind: remote.Frozen},
	"floods":         {login: `exec yes`, stage: remote.StageShell, cause: remote.TooMuch, detail: "64 KiB"},
	"floods stderr":  {login: `exec yes >&2`, stage: remote.StageShell, cause: remote.TooMuch, detail: "messages"},
	"machine":        {login: says("uname", `case $1 in -m) echo riscv64 ;; *) echo Linux ;; esac`), stage: remote.StageDeliver, cause: remote.WrongArch, detail: "riscv64"},
	"system":         {login: says("uname", `case $1 in -m) echo amd64 ;; *) echo FreeBSD ;; esac`), stage: remote.StageDeliver, cause: remote.WrongOS, detail: "FreeBSD"},
	"no programs":    {login: `PATH=/opt; export PATH; ` + runs, stage: remote.StageDeliver, cause: remote.NoPrograms},

	"agent exits":     {login: runs, method: "exit", stage: remote.StageTalk, cause: remote.AgentExited, detail: "last words", calls: remote.ConnectionLost},
	"agent is killed": {login: runs, method: "killed", stage: remote.StageTalk, cause: remote.AgentKilled, detail: "KILL", calls: remote.ConnectionLost},
	"agent stops":     {login: runs, method: "stop", waits: true, stage: remote.StageTalk, cause: remote.Frozen},
	"nonsense":        {login: runs, method: "print", params: "@@preflight nonsense\n", stage: remote.StageTalk, cause: remote.Garbage, detail: "nonsense"},
	"another's name":  {login: runs, method: "print", params: `@@preflight {"node":"w0","id":1,"done":true}` + "\n", stage: remote.StageTalk, cause: remote.Garbage, detail: "w0"},
	"long prose":      {login: runs, method: "print", params: strings.Repeat("prose\n", 20_000), stage: remote.StageTalk, cause: remote.TooMuch, detail: "64 KiB"},
	"long answer":     {login: runs, method: "big", params: "200000 1000", stage: remote.StageTalk, cause: remote.TooMuch, detail: "8 MiB"},
}

// atOnce is the number of rows that run in parallel. The rows mostly wait.
const atOnce = 4

// Faults tests a carrier with every fault.
func Faults(t *testing.T, stand Stand) {
	Compress(t)
	remotetest.NoLeaks(t)
	rows, logins := map[string]row{}, map[string]string{}
	for name, fault := range faults {
		if stand.Calls && fault.method == "" {
			continue
		}
		r := row{fault: fault, bad: fmt.Sprintf("w%d", 2*len(rows)+1), good: fmt.Sprintf("w%d", 2*len(rows)+2)}
		r.logins = map[string]string{}
		r.logins[r.bad], r.badHome = login(t, fault.login)
		r.logins[r.good], r.goodHome = login(t, runs)
		maps.Copy(logins, r.logins)
		rows[name] = r
	}
	if stand.Raise != nil {
		stand.Raise(t, logins)
	}
	var met sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for name, row := range rows {
		// A row that ends with a timeout runs alone. In parallel with other rows, the timeout might
		// only show that this machine is busy.
		if stand.Raise == nil || row.waits {
			continue
		}
		met.Go(func() {
			places <- struct{}{}
			t.Run(name, func(t *testing.T) { row.meet(t, stand) })
			<-places
		})
	}
	met.Wait()
	for name, row := range rows {
		if stand.Raise == nil || row.waits {
			t.Run(name, func(t *testing.T) { row.meet(t, stand) })
		}
	}
}

// login writes a program that acts as a node with its own home directory.
func login(t *testing.T, script string) (path, home string) {
	t.Helper()
	home = t.TempDir()
	path = filepath.Join(home, "login")
	remotetest.Script(t, path, "HOME="+home+" XDG_CACHE_HOME= XDG_RUNTIME_DIR= "+remotetest.PromptExit+"; export HOME XDG_CACHE_HOME XDG_RUNTIME_DIR GORACE; cd\n"+script)
	return path, home
}

func (f row) meet(t *testing.T, stand Stand) {
	patience := ample
	if f.waits && f.method == "" {
		patience = nodePatience
	}
	client := remote.New(stand.Open(t, f.logins), remote.Options{Timeout: patience, Nodes: 2})
	var other sync.WaitGroup
	other.Go(func() {
		agent, _, err := client.Reach(t.Context(), f.good)
		if err == nil {
			err = errors.Join(agent.Call(t.Context(), "echo", "x", remotetest.Nothing), agent.Close())
		}
		if err != nil {
			t.Errorf("the other node: %v", err)
		}
	})
	began := time.Now()
	agent, _, err := client.Reach(t.Context(), f.bad)
	if err == nil {
		if patience = ample; f.waits {
			patience = callPatience
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		began = time.Now()
		err = agent.Call(ctx, f.method, f.params, remotetest.Nothing)
	}
	if took := time.Since(began); took > patience+remotetest.Slack {
		t.Errorf("took %v, of %v", took, patience)
	}
	want, detail := f.cause, f.detail
	switch {
	case stand.Blind && f.blind != "":
		want = f.blind
	case stand.Calls && f.calls != "":
		want, detail = f.calls, ""
	}
	failure, is := errors.AsType[*remote.Error](err)
	if !is || failure.Host != f.bad || failure.Stage != f.stage || failure.Cause != want || !strings.Contains(fmt.Sprint(failure.Detail), detail) {
		t.Errorf("got %v\nwant %s: %s, and %q in its details", err, f.stage, want, detail)
		if is {
			t.Logf("details %q", failure.Detail)
		}
	}
	other.Wait()
	if agent != nil {
		agent.Close() // the call has already returned the error
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if stand.Calls {
		return
	}
	for _, home := range []string{f.badHome, f.goodHome} {
		nothingRuns(t, home)
	}
}

// nothingRuns waits until no process has this home directory in its environment.
func nothingRuns(t *testing.T, home string) {
	t.Helper()
	var running []string
	for range 250 {
		running = nil
		environments, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range environments {
			environment, _ := os.ReadFile(path) // empty if the process has ended
			if strings.Contains("\x00"+string(environment), "\x00HOME="+home+"\x00") {
				command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
				running = append(running, strings.ReplaceAll(string(command), "\x00", " "))
			}
		}
		if running == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("left running: %q", running)
}

// Printing makes everything that an agent's program prints reach the client, because such output
// may be the fault under test.
func Printing(serve func(in io.Reader, out io.Writer) error) func(in io.Reader, out io.Writer) error {
	return func(in io.Reader, out io.Writer) error {
		printed, stdout, err := os.Pipe()
		if err != nil {
			return err
		}
		os.Stdout = stdout
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			_, _ = io.Copy(out, printed)
		}()
		err = serve(in, stdout)
		stdout.Close()
		<-heard
		return err
	}
}

// Compress compresses the test binary, which is the agent, before a node asks for it. With the race
// detector it takes 12 s, after which a node that waits for it ends the delivery.
func Compress(t *testing.T) {
	t.Helper()
	own, err := remote.Own(runtime.GOOS, runtime.GOARCH)
	if err == nil {
		_, err = own.Gzip()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Main is the TestMain of a package that tests a carrier. The test binary itself is the agent.
// callBack is the function of remote/meet, or nil if the carrier's agents do not connect back.
func Main(m *testing.M, callBack func(ctx context.Context, in io.Reader, work func(in io.Reader, out io.Writer) error) error) {
	if len(os.Args) == 1 || os.Args[1] != "agent" {
		os.Exit(m.Run())
	}
	methods := map[string]remote.Method{}
	for name, method := range remotetest.Methods {
		methods[name] = method
	}
	var err error
	if len(os.Args) == 5 && os.Args[2] == "install" {
		err = remote.Install(os.Args[3], os.Args[4])
	} else {
		remote.Arrive()
		serve := func(in io.Reader, out io.Writer) error {
			return remote.Serve(context.Background(), in, out, methods)
		}
		if len(os.Args) == 4 {
			if err = callBack(context.Background(), os.Stdin, Printing(serve)); err != nil {
				fmt.Println(remote.Marker + "uncalled " + err.Error())
				os.Exit(0)
			}
		} else {
			err = serve(os.Stdin, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
