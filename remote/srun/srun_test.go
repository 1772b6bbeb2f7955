// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"preflight/remote"
	"preflight/remote/meet"
	"preflight/testhosts/carriertest"
	"preflight/testhosts/remotetest"
)

func TestMain(m *testing.M) { carriertest.Main(m, meet.CallBack) }

// stub is an srun whose nodes are all this machine. Its behaviour depends on the node's name. Its
// messages are those of Slurm 22.05.
const stub = `#!/bin/sh
echo "$@" >>"$STUB/asked"
echo $$ >>"$STUB/pids"
[ -n "$ONE_WORD" ] && printf '%s\n' "$@" >"$ONE_WORD"
while :; do
	case $1 in --nodelist=*) node=${1#*=} ;; --*) ;; *) break ;; esac
	shift
done
case $node in
*,*)
	case "$*" in *preflight-step*) ;; *)
		i=0
		for name in $(echo "$node" | tr , ' '); do
			[ "$name" = dead ] || (
				[ -n "$LOGINS" ] && login=$LOGINS/$name
				SLURMD_NODENAME=$name exec setsid $login "$@" </dev/null
			) 2>&1 | sed -u "s/^/ $i: /" &
			i=$((i + 1))
		done
		case $node in *dead*) setsid sleep 1000 & ;; esac
		trap 'for task in $(jobs -p); do kill -s KILL -- -$task; done' TERM
		wait
		exit ;;
	esac
	IFS= read -r path
	for name in $(echo "$node" | tr , ' '); do echo "a greeting"; echo "@@preflight-step 3"; done
	read -r end
	echo "$node removes $path" >>"$STUB/asked"
	exit ;;
nowhere) echo "srun: error: Unable to create step for job 7: Requested node configuration is not available" >&2; exit 1 ;;
down)
	echo "srun: cluster configuration lacks support for cpu binding" >&2
	echo "srun: error: Task launch for StepId=7.0 failed on node down: Communication connection failure" >&2
	echo "srun: Job step aborted" >&2
	exit 1 ;;
busy) echo "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)" >&2; exec sleep 1000 ;;
silent) echo "srun: error: Unable to create step for job 7: Unable to contact slurm controller (connect failure)" >&2; exit 1 ;;
over) echo "srun: error: Unable to create step for job 7: Job/step already completing or completed" >&2; exit 1 ;;
gone) echo "srun: error: Unable to confirm allocation for job 7: Invalid job id specified" >&2; echo "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 7" >&2; exit 1 ;;
distrusted) echo "srun: error: Unable to create step for job 7: Protocol authentication error" >&2; exit 1 ;;
unmunged)
	echo "srun: error: If munged is up, restart with --num-threads=10" >&2
	echo "srun: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\": No such file or directory" >&2
	exit 1 ;;
old)
	echo "/usr/bin/srun: unrecognized option '--overlap'" >&2
	echo 'Try "srun --help" for more information' >&2
	exit 1 ;;
no-pyxis)
	echo "/usr/bin/srun: unrecognized option '--container-image=a.sqsh'" >&2
	echo 'Try "srun --help" for more information' >&2
	exit 1 ;;
no-image)
	echo "slurmstepd: error: pyxis: child 31 failed with error code: 1" >&2
	echo "slurmstepd: error: pyxis: failed to create container filesystem" >&2
	echo "slurmstepd: error: pyxis: printing enroot log file:" >&2
	echo "slurmstepd: error: pyxis:     [ERROR] No such file or directory: a.sqsh" >&2
	echo "slurmstepd: error: pyxis: couldn't start container" >&2
	echo "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1" >&2
	echo "srun: error: no-image: task 0: Exited with exit code 1" >&2
	exit 1 ;;
stuck) trap '' TERM; sleep 1000; exit 1 ;;
noisy) echo "a prolog's greeting" ;;
esac
login=
[ -n "$LOGINS" ] && login=$LOGINS/$node
exec 3<&0
setsid $login "$@" <&3 3<&- &
exec 0</dev/null 3<&-
task=$!
trap 'kill -s KILL -- -$task' TERM
wait $task
s=$?
[ $s -lt 128 ] || echo "srun: error: $node: task 0: Killed" >&2
exit $s
`

// inJob makes a test run in a Slurm job with the stub srun, and returns the stub's directory.
func inJob(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "srun"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STUB", dir)
	t.Setenv("LOGINS", "")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("SLURM_JOB_ID", "7")
	return dir
}

// job returns a client in a Slurm job with the stub srun, for the duration of a test.
func job(t *testing.T, timeout time.Duration) (client *remote.Client, dir string) {
	t.Helper()
	dir = inJob(t)
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("GORACE", strings.TrimPrefix(remotetest.PromptExit, "GORACE="))
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	carrier, err := New(nil, Options{Job: Own()})
	if err != nil {
		t.Fatal(err)
	}
	client = remote.New(carrier, remote.Options{Timeout: timeout})
	t.Cleanup(func() {
		client.Close()
		pids, err := os.ReadFile(filepath.Join(dir, "pids"))
		if err != nil {
			t.Error(err)
		}
		for _, pid := range strings.Fields(string(pids)) {
			var number int
			fmt.Sscan(pid, &number)
			remotetest.Gone(t, number)
		}
		remotetest.NoLeaks(t)
	})
	return client, dir
}

func TestTalk(t *testing.T) {
	client, dir := job(t, time.Minute)
	for i, node := range []string{"w1", "root@w1", "noisy"} {
		agent, trace, err := client.Reach(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		if trace.Carrier != "srun" || trace.Delivered != (i == 0) || trace.Port != 0 || !strings.HasPrefix(trace.Path, dir) {
			t.Errorf("%s: %+v", node, trace)
		}
		if noise := strings.Join(trace.Noise, "|"); (noise == "a prolog's greeting") != (node == "noisy") {
			t.Errorf("%s: noise %q", node, noise)
		}
		long, answer := strings.Repeat("x", 100_000), ""
		err = agent.Call(t.Context(), "echo", long, func(_ string, body json.RawMessage) { answer += string(body) })
		if err != nil || !strings.Contains(answer, long) {
			t.Errorf("%s: %v, answered %d bytes", node, err, len(answer))
		}
		if err := agent.Close(); err != nil {
			t.Errorf("%s: %v", node, err)
		}
	}
	asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
	for line := range strings.Lines(string(asked)) {
		if !strings.Contains(line, "--nodes=1 --ntasks=1 --nodelist=") || !strings.Contains(line, "--overlap ") || strings.Contains(line, "root@") {
			t.Errorf("srun %.200s", line)
		}
	}
}

// TestFaultsOfGroup checks the faults of agents that call back.
func TestFaultsOfGroup(t *testing.T) {
	inJob(t)
	carriertest.Faults(t, carriertest.Stand{Calls: true, Open: func(t *testing.T, logins map[string]string) remote.Carrier {
		dir := t.TempDir()
		for node, login := range logins {
			if err := os.Symlink(login, filepath.Join(dir, node)); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("LOGINS", dir)
		nodes := slices.Sorted(maps.Keys(logins))
		of := Own()
		of.Nodes = strings.Join(nodes, ",")
		deliver, err := New(nodes, Options{Job: of})
		if err != nil {
			t.Fatal(err)
		}
		client := remote.New(deliver, remote.Options{Timeout: time.Minute})
		defer client.Close()
		for _, node := range nodes {
			agent, _, err := client.Reach(t.Context(), node)
			if err != nil {
				t.Fatal(err)
			}
			agent.Close()
		}
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		callback := free.Addr().String()
		free.Close()
		carrier, err := New(nodes, Options{Job: of, Callback: callback, Binary: remote.Own})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if carrier.group.calls == nil || len(carrier.group.calls.nodes) != len(nodes) {
				t.Error("not all agents have called")
			}
		})
		return carrier
	}})
}

func TestFaults(t *testing.T) {
	raise := func(t *testing.T, logins map[string]string) {
		dir := t.TempDir()
		for node, login := range logins {
			if err := os.Symlink(login, filepath.Join(dir, node)); err != nil {
				t.Fatal(err)
			}
		}
		inJob(t)
		t.Setenv("LOGINS", dir)
	}
	carriertest.Faults(t, carriertest.Stand{Blind: true, Raise: raise, Open: func(t *testing.T, logins map[string]string) remote.Carrier {
		carrier, err := New(slices.Collect(maps.Keys(logins)), Options{Job: Own()})
		if err != nil {
			t.Fatal(err)
		}
		return carrier
	}})
}

// TestBring checks that nodes which lack the same file get it from one sbcast through one step. The
// step removes the rest of the file at the end. Bring returns false for a node that does not get
// the file.
func TestBring(t *testing.T) {
	const path, content = "/cache/preflight-x.0", "a binary"
	brings := "echo \"$@\" >>$STUB/sbcasts\n"
	for _, test := range []struct {
		name   string
		sbcast string // "" for none
		nodes  []string
		steps  string
		sent   string
		came   bool
	}{
		{"three nodes", brings + "cat $3 >$STUB/sent", []string{"w1", "w2", "w3"}, "w1,w2,w3", content, true},
		{"it fails", brings + "exit 1", []string{"w1", "w2"}, "w1,w2", "", false},
		{"one node", brings, []string{"w1"}, "", "", false},
		{"no sbcast", "", []string{"w1", "w2"}, "", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, dir := job(t, time.Minute)
			if err := os.WriteFile(filepath.Join(dir, "pids"), nil, 0o600); err != nil { // the file exists even if no step starts
				t.Fatal(err)
			}
			if test.sbcast == "" {
				t.Setenv("PATH", dir)
			} else {
				remotetest.Script(t, filepath.Join(dir, "sbcast"), test.sbcast)
			}
			carrier, err := New(test.nodes, Options{Job: Own()})
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for _, node := range test.nodes {
				all.Go(func() {
					connection, _, err := carrier.Dial(t.Context(), node)
					if err != nil {
						t.Error(err)
						return
					}
					if came := connection.(remote.Porter).Bring(t.Context(), path, []byte(content)); came != test.came {
						t.Errorf("%s: %t", node, came)
					}
				})
			}
			all.Wait()
			if err := carrier.Close(); err != nil {
				t.Error(err)
			}
			sent, _ := os.ReadFile(filepath.Join(dir, "sent")) // the file is missing if nothing was sent
			if string(sent) != test.sent {
				t.Errorf("sent %q", sent)
			}
			sbcasts, _ := os.ReadFile(filepath.Join(dir, "sbcasts"))
			asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
			if test.steps == "" {
				if len(sbcasts)+len(asked) > 0 {
					t.Errorf("sbcast %s, srun %s", sbcasts, asked)
				}
				return
			}
			if words := strings.Fields(string(sbcasts)); len(words) != 4 || words[0] != "--jobid=7.3" || words[3] != path {
				t.Errorf("sbcast %s", sbcasts)
			}
			nodes := regexp.MustCompile(`--nodelist=(\S+)`).FindStringSubmatch(string(asked))
			if nodes == nil || !slices.Equal(slices.Sorted(strings.SplitSeq(nodes[1], ",")), strings.Split(test.steps, ",")) ||
				!strings.HasSuffix(string(asked), nodes[1]+" removes "+path+"\n") {
				t.Errorf("srun %s", asked)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	const soon = 2 * time.Second
	for _, test := range []struct {
		node    string
		cause   remote.Cause
		message string
		waits   bool
	}{
		{"nowhere", remote.NotInJob, "Unable to create step for job 7: Requested node configuration is not available", false},
		{"down", remote.StepFailed, "Task launch for StepId=7.0 failed on node down: Communication connection failure", false},
		{"busy", remote.StepFailed, "s: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)", true},
		{"silent", remote.SlurmSilent, "Unable to contact slurm controller (connect failure)", false},
		{"over", remote.JobOver, "Job/step already completing or completed", false},
		{"gone", remote.JobOver, "Unable to confirm allocation for job 7: Invalid job id specified", false},
		{"distrusted", remote.SlurmDistrusts, "Protocol authentication error", false},
		{"unmunged", remote.SlurmDistrusts, "No such file or directory", false},
		{"old", remote.NoOverlap, "unrecognized option '--overlap'", false},
		{"no-pyxis", remote.NoPyxis, "unrecognized option '--container-image=a.sqsh'", false},
		{"no-image", remote.PyxisFailed, "Exited with exit code 1", false},
		{"stuck", remote.Frozen, "and it printed no error", true},
	} {
		t.Run(test.node, func(t *testing.T) {
			client, _ := job(t, soon)
			began := time.Now()
			_, _, err := client.Reach(t.Context(), test.node)
			failure, ok := errors.AsType[*remote.Error](err)
			if !ok || failure.Host != test.node || failure.Cause != test.cause || !strings.HasSuffix(failure.Err.Error(), test.message) {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > soon+time.Second+remotetest.Slack || test.waits != (took >= soon) {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestKilled: a killed task is reported as killed, and not as a step that Slurm refused.
func TestKilled(t *testing.T) {
	client, _ := job(t, time.Minute)
	agent, _, err := client.Reach(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	err = agent.Call(t.Context(), "killed", nil, func(string, json.RawMessage) {})
	failure, ok := errors.AsType[*remote.Error](err)
	if !ok || failure.Cause != remote.AgentKilled || failure.Detail["signal"] != "KILL" {
		t.Errorf("%v", err)
	}
	agent.Close()
}

func TestInterrupted(t *testing.T) {
	client, dir := job(t, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // kills the task as soon as srun runs
		for ctx.Err() == nil {
			if pids, _ := os.ReadFile(filepath.Join(dir, "pids")); len(pids) > 0 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, _, err := client.Reach(ctx, "busy")
	if failure, ok := errors.AsType[*remote.Error](err); !ok || failure.Cause != remote.Interrupted {
		t.Errorf("%v", err)
	}
}

// TestNamed checks that each value that the user passes to srun is one word, and is part of the
// trace.
func TestNamed(t *testing.T) {
	_, dir := job(t, time.Minute)
	own := []string{"--jobid=118", "--container-image=a b.sqsh", "--container-mounts=/a:/b,/c:/d"}
	t.Setenv("ONE_WORD", filepath.Join(dir, "words"))
	carrier, err := New(nil, Options{Job: Job{ID: "118", Named: true}, Container: own[1:]})
	if err != nil {
		t.Fatal(err)
	}
	client := remote.New(carrier, remote.Options{Timeout: time.Minute})
	defer client.Close()
	agent, trace, err := client.Reach(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	agent.Close()
	words, _ := os.ReadFile(filepath.Join(dir, "words"))
	for _, word := range own {
		if !slices.Contains(strings.Split(string(words), "\n"), word) {
			t.Errorf("srun was not given %q as a word: %q", word, words)
		}
	}
	if !slices.Equal(trace.Options, own) {
		t.Errorf("told as met: %q", trace.Options)
	}
}

func TestRead(t *testing.T) {
	me := fmt.Sprint(os.Getuid())
	for _, test := range []struct {
		lines []string
		want  Job
		fails string
	}{
		{[]string{"118|118|RUNNING|" + me + "|w[1-4]"}, Job{ID: "118", Nodes: "w[1-4]", Named: true}, ""},
		{[]string{"121|118_3|RUNNING|" + me + "|w3"}, Job{ID: "121", Nodes: "w3", Named: true}, ""},
		{nil, Job{}, "has ended"},
		{[]string{"118|118|PENDING|" + me + "|"}, Job{}, "does not run, it is PENDING"},
		{[]string{"118|118|RUNNING|4294967294|w1"}, Job{}, "belongs to 4294967294"},
		{[]string{"119|118_1|RUNNING|" + me + "|w1", "120|118_2|RUNNING|" + me + "|w2"}, Job{}, "stands for 2 jobs: name one of them, such as 118_1"},
		{[]string{"--evil|118|RUNNING|" + me + "|w1"}, Job{}, "is not a job"},
		{[]string{"squeue:"}, Job{}, "is not a job"},
	} {
		got, err := read("118", test.lines)
		if got != test.want || (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%q: %+v, %v", test.lines, got, err)
		}
	}
}

func TestOutsideAJob(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "")
	if _, err := New(nil, Options{Job: Own()}); err == nil || !strings.Contains(err.Error(), "salloc") {
		t.Errorf("%v", err)
	}
}
