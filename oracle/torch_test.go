// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"preflight/facts"
)

// release is one release of torch.
type release struct {
	name       string
	python     string
	generation facts.Generation
	libuv      []bool // the kinds of servers that the release has
}

// oracleHome returns the directory into which setup.sh installs.
func oracleHome() string {
	home, _ := os.UserHomeDir() // if the result is "", the tests fail and name the missing file
	return cmp.Or(os.Getenv("PREFLIGHT_ORACLE"), filepath.Join(home, ".cache/preflight-oracle"))
}

// releases returns one release of each generation, the oldest first.
func releases() []release {
	oracle := oracleHome()
	return []release{
		{"1.13", "/usr/bin/python3", facts.GenerationLegacy, []bool{false}},
		{"2.4", filepath.Join(oracle, "v24/bin/python"), facts.GenerationValidates, []bool{false, true}},
		{"2.15", filepath.Join(oracle, "v215/bin/python"), facts.GenerationPings, []bool{false, true}},
	}
}

// eachRelease runs a test for every release of torch.
func eachRelease(t *testing.T, test func(*testing.T, release)) {
	for _, r := range releases() {
		t.Run(r.name, func(t *testing.T) { test(t, r) })
	}
}

// eachServer runs a test for every kind of server of every release of torch.
func eachServer(t *testing.T, test func(t *testing.T, r release, libuv bool)) {
	eachRelease(t, func(t *testing.T, r release) {
		for _, libuv := range r.libuv {
			t.Run(fmt.Sprintf("libuv=%t", libuv), func(t *testing.T) {
				t.Parallel()
				test(t, r, libuv)
			})
		}
	})
}

// torch is a Python process that runs store.py and carries out orders.
type torch struct {
	t       *testing.T
	process *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
	version string
}

// start starts a Python process, which ends with the test.
func (r release) start(t *testing.T) *torch {
	t.Helper()
	process := exec.Command(r.python, "-W", "ignore", "store.py")
	process.Stderr = &logged{t: t}
	orders, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatalf("torch %s is needed: run oracle/setup.sh: %v", r.name, err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait() // the process was killed
	})
	p := &torch{t: t, process: process, orders: orders, answers: bufio.NewScanner(answers)}
	p.version = must[string](p, order{"do": "version"})
	return p
}

// logged prints the standard error of a Python process after a failed test.
type logged struct {
	t    *testing.T
	said strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	if l.said.Len() == 0 {
		l.t.Cleanup(func() {
			if l.t.Failed() {
				l.t.Logf("stderr of torch:\n%s", &l.said)
			}
		})
	}
	return l.said.Write(p)
}

type order map[string]any

// send sends an order without waiting for the answer.
func (p *torch) send(o order) {
	p.t.Helper()
	line, err := json.Marshal(o)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.orders.Write(append(line, '\n')); err != nil {
		p.t.Errorf("%v: %v", o, err)
	}
}

// receive waits for the answer to the oldest unanswered order.
func (p *torch) receive(into any) error {
	p.t.Helper()
	if !p.answers.Scan() {
		return fmt.Errorf("the process ended: %w", cmp.Or(p.answers.Err(), io.EOF))
	}
	var answer struct {
		Said  json.RawMessage
		Error string
	}
	if err := json.Unmarshal(p.answers.Bytes(), &answer); err != nil {
		return fmt.Errorf("%s: %w", p.answers.Bytes(), err)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Said, into)
}

func ask[Answer any](p *torch, o order) (Answer, error) {
	p.t.Helper()
	var answer Answer
	p.send(o)
	err := p.receive(&answer)
	return answer, err
}

func must[Answer any](p *torch, o order) Answer {
	p.t.Helper()
	answer, err := ask[Answer](p, o)
	if err != nil {
		p.t.Fatalf("%v: %v", o, err)
	}
	return answer
}

// serve makes torch serve a store on a free port.
func (p *torch) serve(libuv bool) (port int) {
	p.t.Helper()
	return must[int](p, order{"do": "serve", "port": 0, "libuv": libuv})
}

// patience is much longer than any successful operation takes.
const patience = 20 * time.Second
