// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"preflight/remote"
	"preflight/testhosts/remotetest"
)

// stubOfMany is a srun --label whose nodes are all this machine: what it reads goes to every
// task, and what they write is cut at 1024 bytes and mixed, as by Slurm 22.05. A node that is
// called dead never begins, and one called refused ends the whole step.
func stubOfMany(argv []string) int {
	var nodes []string
	for strings.HasPrefix(argv[0], "--") {
		if list, is := strings.CutPrefix(argv[0], "--nodelist="); is {
			nodes = strings.Split(list, ",")
		}
		argv = argv[1:]
	}
	var (
		tasks   sync.WaitGroup
		mu      sync.Mutex
		worst   int
		inputs  []*os.File
		running []*exec.Cmd
	)
	for i, node := range nodes {
		switch node {
		case "refused":
			fmt.Fprintln(os.Stderr, "srun: error: Unable to create step for job 7: Invalid node name specified")
			return 1
		case "dead":
			tasks.Add(1)
			continue
		}
		program := argv
		if logins := os.Getenv("LOGINS"); logins != "" {
			program = append([]string{filepath.Join(logins, node)}, argv...)
		}
		cmd := exec.Command(program[0], program[1:]...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("SLURM_PROCID=%d", i), "SLURMD_NODENAME="+node)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		theirs, input, _ := os.Pipe()
		cmd.Stdin = theirs
		stdout, _ := cmd.StdoutPipe()
		stderr, _ := cmd.StderrPipe()
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, "srun: error:", err)
			return 1
		}
		theirs.Close()
		inputs, running = append(inputs, input), append(running, cmd)
		tasks.Go(func() {
			var streams sync.WaitGroup
			streams.Go(func() { labelled(&mu, os.Stdout, i, stdout) })
			streams.Go(func() { labelled(&mu, os.Stderr, i, stderr) })
			streams.Wait()
			if cmd.Wait() != nil {
				mu.Lock()
				worst = max(worst, 1)
				mu.Unlock()
			}
		})
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	go func() {
		<-told
		for _, cmd := range running {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		os.Exit(143)
	}()
	go func() {
		part := make([]byte, 1000)
		for {
			n, err := os.Stdin.Read(part)
			for _, input := range inputs {
				_, _ = input.Write(part[:n])
				if err != nil {
					input.Close()
				}
			}
			if err != nil {
				return
			}
		}
	}()
	tasks.Wait()
	return worst
}

// labelled writes a task's lines as srun does.
func labelled(mu *sync.Mutex, to io.Writer, task int, from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		for len(text) >= widest {
			mu.Lock()
			fmt.Fprintf(to, "%2d: %s\n", task, text[:widest])
			mu.Unlock()
			text = text[widest:]
		}
		if whole || len(text) > 0 {
			mu.Lock()
			fmt.Fprintf(to, "%2d: %s\n", task, text)
			mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

const timeOfMany = 12 * time.Second

// ofMany is a client of a job of these nodes, all of which have our binary.
func ofMany(t *testing.T, nodes ...string) (client *remote.Client, dir string) {
	t.Helper()
	_, dir = job(t, time.Minute)
	warm(t, nodes[:1])
	if err := os.Remove(filepath.Join(dir, "asked")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_JOB_NODELIST", strings.Join(nodes, ","))
	carrier, err := New(nodes, Options{Job: Own(), Timeout: timeOfMany})
	if err != nil {
		t.Fatal(err)
	}
	client = remote.New(carrier, remote.Options{Timeout: timeOfMany})
	t.Cleanup(func() { client.Close() })
	return client, dir
}

// asked are the node lists of the steps, in their order.
func asked(t *testing.T, dir string) (lists []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		_, list, _ := strings.Cut(line, "--nodelist=")
		list, _, _ = strings.Cut(list, " ")
		lists = append(lists, list)
	}
	return lists
}

// talk reaches every node at once and has each repeat what is its own.
func talk(t *testing.T, client *remote.Client, nodes []string) (failures map[string]error) {
	t.Helper()
	var (
		all sync.WaitGroup
		mu  sync.Mutex
	)
	failures = map[string]error{}
	for i, node := range nodes {
		all.Go(func() {
			agent, _, err := client.Reach(t.Context(), node)
			if err == nil {
				for size := 1; size < 40_000 && err == nil; size = size*3 + i {
					said, answer := strings.Repeat(node, size), ""
					err = agent.Call(t.Context(), "echo", said, func(_ string, body json.RawMessage) { answer += string(body) })
					if err == nil && strings.Count(answer, said) != 3 {
						err = fmt.Errorf("%d bytes were answered with %d", len(said), len(answer))
					}
				}
				err = errors.Join(err, agent.Close())
			}
			mu.Lock()
			defer mu.Unlock()
			failures[node] = err
		})
	}
	all.Wait()
	return failures
}

func TestOneStepOfMany(t *testing.T) {
	nodes := []string{"w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9", "w10", "w11", "w12"}
	client, dir := ofMany(t, nodes...)
	for node, err := range talk(t, client, nodes) {
		if err != nil {
			t.Errorf("%s: %v", node, err)
		}
	}
	if got := asked(t, dir); len(got) != 1 || got[0] != strings.Join(nodes, ",") {
		t.Errorf("steps of %q", got)
	}
}

// TestOneOfManyIsDead: it costs the others the time until that is known, and no more.
func TestOneOfManyIsDead(t *testing.T) {
	for node, want := range map[string]int{"dead": 3, "refused": 4} {
		t.Run(node, func(t *testing.T) {
			nodes := []string{"w1", node, "w2"}
			client, dir := ofMany(t, nodes...)
			began := time.Now()
			for name, err := range talk(t, client, []string{"w1", "w2"}) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if took := time.Since(began); took > patience(timeOfMany)+2*remotetest.Slack {
				t.Errorf("took %v", took)
			}
			if got := asked(t, dir); len(got) != want-1 {
				t.Errorf("steps of %q", got)
			}
		})
	}
}

// TestOneOfManyReadsNothing: one that stops in the middle costs the others nothing while what it leaves
// unread is less than what is held for it; and where that is full they are told why nothing comes of
// theirs, instead of waiting.
func TestOneOfManyReadsNothing(t *testing.T) {
	nodes := []string{"w1", "w2", "w3"}
	client, _ := ofMany(t, nodes...)
	agents := map[string]*remote.Agent{}
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, node := range nodes {
		all.Go(func() {
			agent, _, err := client.Reach(t.Context(), node)
			if err != nil {
				t.Error(node, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			agents[node] = agent
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	stopped, enough := context.WithTimeout(t.Context(), time.Second)
	defer enough()
	err := agents["w3"].Call(stopped, "stop", nil, remotetest.Nothing)
	if failure, is := errors.AsType[*remote.Error](err); !errors.Is(err, remote.ErrNoAnswer) && (!is || failure.Cause != remote.Frozen) {
		t.Errorf("of the one that stopped: %v", err)
	}
	go agents["w3"].Close()
	for _, node := range nodes[:2] {
		if err := agents[node].Call(t.Context(), "echo", strings.Repeat(node, 5000), remotetest.Nothing); err != nil {
			t.Errorf("%s: %v", node, err)
		}
	}
	began := time.Now()
	limit, over := context.WithTimeout(t.Context(), 4*patience(timeOfMany))
	defer over()
	for _, node := range nodes[:2] {
		all.Go(func() {
			err := agents[node].Call(limit, "echo", strings.Repeat(node, 300_000), remotetest.Nothing)
			failure, is := errors.AsType[*remote.Error](err)
			if !is || failure.Cause != remote.ConnectionLost || !strings.HasSuffix(failure.Err.Error(), "one of them reads nothing, maybe that of w3") {
				t.Errorf("%s: %v", node, err)
			}
			agents[node].Close()
		})
	}
	all.Wait()
	if took := time.Since(began); took > patience(timeOfMany)+2*remotetest.Slack {
		t.Errorf("took %v", took)
	}
}

// FuzzSplit: whatever a task writes, the bytes that it is told to have written are those.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("a\nb"), []byte(" 1: c\n"), 1)
	f.Add(bytes.Repeat([]byte("x"), 2048), bytes.Repeat([]byte("y\n"), 700), 7)
	f.Fuzz(func(t *testing.T, one, two []byte, _ int) {
		var said bytes.Buffer
		var mu sync.Mutex
		one, two = append(one, '\n'), append(two, '\n') // srun adds what is missing
		var both sync.WaitGroup
		both.Go(func() { labelled(&mu, &said, 0, bytes.NewReader(one)) })
		both.Go(func() { labelled(&mu, &said, 11, bytes.NewReader(two)) })
		both.Wait()
		got := map[int][]byte{}
		split(&said, func(task int, piece []byte) { got[task] = append(got[task], piece...) })
		if !bytes.Equal(got[0], one) || !bytes.Equal(got[11], two) {
			t.Errorf("of %q and %q came %q and %q", one, two, got[0], got[11])
		}
	})
}
