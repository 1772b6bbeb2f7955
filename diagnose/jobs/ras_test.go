// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// standIn answers as NCCL's RAS service does (2.27.3 and 2.30.7, src/ras/client_support.cc,
// rasClientEventLoop). Each status is for one client; the last one is repeated. An empty status stands
// for a stopped process, which accepts a connection and does not answer.
func standIn(t *testing.T, speaksJSON bool, statuses ...string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			status := statuses[0]
			if len(statuses) > 1 {
				statuses = statuses[1:]
			}
			go serve(conn, speaksJSON, status)
		}
	}()
	return listener.Addr().String()
}

func serve(conn net.Conn, speaksJSON bool, status string) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		switch line := strings.ToLower(lines.Text()); {
		case status == "":
		case strings.HasPrefix(line, "client protocol "):
			fmt.Fprintln(conn, "SERVER PROTOCOL 2")
		case strings.HasPrefix(line, "timeout "), line == "set format json" && speaksJSON:
			fmt.Fprintln(conn, "OK")
		case line == "verbose status":
			fmt.Fprint(conn, status)
			return
		default:
			fmt.Fprintln(conn, "ERROR: Unknown command "+lines.Text())
		}
	}
}

// head is the beginning of a status in NCCL's text format.
const head = `NCCL version 2.27.3 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12090

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
`

const healthy = head + `    0         1         4         8        32        32   RUNNING      OK

Errors
======

Warnings
========

`

// mismatch returns a status in which one rank has launched fewer collectives.
func mismatch(most, least int) string {
	return fmt.Sprintf(head+`    0         1         4         8        32        32   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  31 ranks have launched up to operation %d
  Rank 5 has launched up to operation %d -- GPU 5 managed by process 483077 on node 172.16.64.210

`, most, least)
}

const incomplete = head + `    0         1         4       7-8        32        32   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

`

// inJSON returns a status of two ranks, of which the second has launched so many collectives.
func inJSON(second int) string {
	return fmt.Sprintf(`{"nccl_version": "2.29.1", "communicators_count": 1, "communicators": [{"hash": "0xae", "size": 3,
 "ranks": [{"rank": 0, "host": "10.0.0.1", "pid": 11, "status": {"init_state": 0}, "collective_counts": {"Broadcast": 1, "AllReduce": 42}},
  {"rank": 1, "host": "10.0.0.2", "pid": 12, "status": {"init_state": 0}, "collective_counts": {"Broadcast": 1, "AllReduce": %d}}],
 "missing_ranks": [{"rank": 2, "host": "10.0.0.3", "pid": 13, "status": {"unresponsive": true, "considered_dead": false}}]}],
 "ras": {"collection_time_sec": 0.000, "timeouts_count": 0}}
`, second)
}

func TestRAS(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		json     bool
		statuses []string
		want     facts.RAS
	}{
		"all ranks are at the same collective, which the text does not name": {false, []string{healthy}, facts.RAS{}},
		"a rank is behind":                 {false, []string{mismatch(42, 41)}, facts.RAS{Moved: &no, Behind: []facts.RASRank{{Host: "172.16.64.210", PID: 483077, Collectives: "AllReduce 41 of 42"}}}},
		"a rank was behind, and goes on":   {false, []string{mismatch(42, 41), mismatch(60, 59)}, facts.RAS{Moved: &yes}},
		"a process does not answer":        {false, []string{incomplete}, facts.RAS{Silent: []facts.RASRank{{Host: "172.16.64.213", PID: 3487984, Dead: true}}}},
		"the first process is stopped":     {false, []string{"", mismatch(42, 41)}, facts.RAS{Moved: &no, Behind: []facts.RASRank{{Host: "172.16.64.210", PID: 483077, Collectives: "AllReduce 41 of 42"}}}},
		"in json":                          {true, []string{inJSON(41)}, facts.RAS{Moved: &no, Silent: []facts.RASRank{{Host: "10.0.0.3", PID: 13}}, Behind: []facts.RASRank{{Host: "10.0.0.2", PID: 12, Collectives: "AllReduce 41 of 42"}}}},
		"in json, and a rank goes on":      {true, []string{inJSON(41), inJSON(42)}, facts.RAS{Moved: &yes, Silent: []facts.RASRank{{Host: "10.0.0.3", PID: 13}}}},
		"in json, and the text is no json": {true, []string{"{"}, facts.RAS{Problem: "cannot read NCCL's status: unexpected end of JSON input"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := standIn(t, c.json, c.statuses...)
			first, err := askRAS(t.Context(), address)
			var last *status
			if err == nil {
				last, err = askRAS(t.Context(), address)
			}
			got := compared("", first, last, err)
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestRASDeadline checks that a service without an answer costs a bounded time, and that the end of
// the run ends the wait.
func TestRASDeadline(t *testing.T) {
	t.Parallel()
	address := standIn(t, false, "")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := askRAS(ctx, address); err == nil || time.Since(began) > rasGreeting {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
