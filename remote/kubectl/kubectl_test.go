// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"preflight/remote"
	"preflight/testhosts/carriertest"
	"preflight/testhosts/remotetest"
)

func TestMain(m *testing.M) { carriertest.Main(m, nil) }

// stub is a kubectl whose pods all run on this machine. Its behaviour depends on the pod's name.
// Its messages are those of kubectl 1.32, of its API server and of containerd.
const stub = `
printf '%s\n' "$*" >>"$STUB/asked"
echo $$ >>"$STUB/pids"
if [ "$1" = get ]; then
	[ ! -e "$STUB/says" ] || { cat "$STUB/says" >&2; exit 1; }
	[ ! -e "$STUB/hangs" ] || exec sleep 1000
	exec cat "$STUB/pods"
fi
pod=$3
while [ "$1" != -- ]; do shift; done
shift
case $pod in
gone) echo 'Error from server (NotFound): pods "gone" not found' >&2; exit 1 ;;
denied) echo 'Error from server (Forbidden): pods "denied" is forbidden: User "ann" cannot create resource "pods/exec" in API group "" in the namespace "ml"' >&2; exit 1 ;;
bare)
	echo 'error: Internal error occurred: error executing command in container: failed to exec in container: failed to start exec "0a1b": OCI runtime exec failed: exec failed: unable to start container process: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown' >&2
	exit 1 ;;
severed) echo 'Error from server: error dialing backend: dial tcp 10.0.0.9:10250: connect: no route to host' >&2; exit 1 ;;
odd) echo 'error: the stars are not right' >&2; exit 1 ;;
stuck) trap '' TERM; sleep 1000; exit 1 ;;
cut) echo 'E1123 22:25:28.194368 26401 v2.go:104] "Unhandled Error" err="EOF"' >&2; exit 0 ;;
dropped) # behind the command's first line
	exec 3<&0
	{ IFS= read -r line; printf '%s\n' "$line"; exec sleep 2 2>/dev/null; } <&3 | setsid "$@" 3<&- &
	sleep 1
	kill -s KILL -- -$!
	echo 'error: error reading from error stream: next reader: websocket: close 1006 (abnormal closure): unexpected EOF' >&2
	exit 1 ;;
esac
login=
[ -n "$LOGINS" ] && login=$LOGINS/$pod
exec 3<&0
setsid $login "$@" <&3 3<&- &
exec 0</dev/null 3<&-
task=$!
trap 'kill -s KILL -- -$task' TERM
wait $task
s=$?
[ $s = 0 ] || echo "command terminated with exit code $s" >&2
exit $s
`

// running is a pod as the API server describes it.
const running = `{"metadata":{"name":%q,"namespace":"ml"},"spec":{"containers":[{"name":"train","resources":{"limits":{"nvidia.com/gpu":"2","cpu":"8"}}},{"name":"logs"}]},"status":{"phase":"Running","podIP":"10.0.0.7","containerStatuses":[{"name":"train","state":{"running":{}}},{"name":"logs","state":{"running":{}}}]}}`

// inCluster makes a test run with the stub kubectl and these pods, and returns the directory of
// both.
func inCluster(t *testing.T, pods ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	remotetest.Script(t, filepath.Join(dir, "kubectl"), stub)
	write(t, filepath.Join(dir, "pods"), `{"items":[`+strings.Join(pods, ",")+`]}`)
	t.Setenv("STUB", dir)
	t.Setenv("LOGINS", "")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("GORACE", strings.TrimPrefix(remotetest.PromptExit, "GORACE="))
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
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
	return dir
}

// cluster returns a client of the stub kubectl and its pods for the duration of a test.
func cluster(t *testing.T, timeout time.Duration, o Options, pods ...string) (carrier *Carrier, client *remote.Client, dir string) {
	t.Helper()
	dir = inCluster(t, pods...)
	o.Timeout = timeout
	carrier, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	client = remote.New(carrier, remote.Options{Timeout: timeout})
	t.Cleanup(func() { client.Close() })
	return carrier, client, dir
}

func TestFaults(t *testing.T) {
	raise := func(t *testing.T, logins map[string]string) {
		dir := t.TempDir()
		var pods []string
		for node, login := range logins {
			pods = append(pods, fmt.Sprintf(running, node))
			if err := os.Symlink(login, filepath.Join(dir, node)); err != nil {
				t.Fatal(err)
			}
		}
		inCluster(t, pods...)
		t.Setenv("LOGINS", dir)
	}
	carriertest.Faults(t, carriertest.Stand{Blind: true, Raise: raise, Open: func(t *testing.T, logins map[string]string) remote.Carrier {
		carrier, err := New(t.Context(), Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return carrier
	}})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTalk(t *testing.T) {
	_, client, dir := cluster(t, time.Minute, Options{Namespace: "ml", Context: "--evil", Container: "train"}, fmt.Sprintf(running, "w1"))
	for i := range 2 {
		agent, trace, err := client.Reach(t.Context(), "w1")
		if err != nil {
			t.Fatal(err)
		}
		if trace.Carrier != Name || trace.Delivered != (i == 0) || trace.Address != "10.0.0.7" || trace.Banner != "container train of train, logs in pod ml/w1" || !strings.HasPrefix(trace.Path, dir) {
			t.Errorf("%+v", trace)
		}
		long, answer := strings.Repeat("x", 100_000), ""
		err = agent.Call(t.Context(), "echo", long, func(_ string, body json.RawMessage) { answer += string(body) })
		if err != nil || !strings.Contains(answer, long) {
			t.Errorf("%v, answered %d bytes", err, len(answer))
		}
		if err := agent.Close(); err != nil {
			t.Error(err)
		}
	}
	asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
	lines := strings.Split(strings.TrimSpace(string(asked)), "\n")
	want := "exec --stdin w1 --context=--evil --namespace=ml --container=train -- /bin/sh -c "
	const room = 600 // maximum length of a command in a URL
	if len(lines) != 3 || lines[0] != "get pods --output=json --context=--evil --namespace=ml" || !strings.HasPrefix(lines[1], want) || len(lines[1]) > room {
		t.Errorf("%q", lines)
	}
}

// TestFailures checks kubectl's messages when it must enter a pod with which the cluster sees no
// problem.
func TestFailures(t *testing.T) {
	const soon, grace = 2 * time.Second, time.Second // grace is for a kubectl that is told to end
	for _, test := range []struct {
		pod     string
		cause   remote.Cause
		message string
		waits   bool
	}{
		{"gone", remote.NoPod, `pods "gone" not found`, false},
		{"denied", remote.Forbidden, `in the namespace "ml"`, false},
		{"bare", remote.NoShell, "no such file or directory: unknown", false},
		{"severed", remote.KubeletDown, "no route to host", false},
		{"odd", remote.SessionRefused, "error: the stars are not right", false},
		{"dropped", remote.ConnectionLost, "unexpected EOF", false},
		{"cut", remote.ConnectionLost, `err="EOF"`, false},
		{"stuck", remote.Frozen, "and it printed no error", true},
		{"Not_a_pod", remote.NoPod, "this is not a valid pod name", false},
		{"--as=admin", remote.NoPod, "this is not a valid pod name", false},
		{"absent", remote.NoPod, "no pod has this name among the pods of --namespace ml", false},
	} {
		t.Run(test.pod, func(t *testing.T) {
			pods := []string{fmt.Sprintf(running, "w1")}
			if test.pod != "absent" {
				pods = append(pods, fmt.Sprintf(running, test.pod))
			}
			_, client, _ := cluster(t, soon, Options{Namespace: "ml"}, pods...)
			began := time.Now()
			_, _, err := client.Reach(t.Context(), test.pod)
			failure, ok := errors.AsType[*remote.Error](err)
			if !ok || failure.Host != test.pod || failure.Cause != test.cause || !strings.HasSuffix(failure.Err.Error(), test.message) {
				t.Fatalf("%v", err)
			}
			if podName.MatchString(test.pod) && failure.Detail["namespace"] != "ml" {
				t.Errorf("detail %v", failure.Detail)
			}
			if took := time.Since(began); took > soon+grace+remotetest.Slack || test.waits && took < soon {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestKilled: a killed command is reported as killed, and not as never started.
func TestKilled(t *testing.T) {
	_, client, _ := cluster(t, time.Minute, Options{}, fmt.Sprintf(running, "w1"))
	agent, _, err := client.Reach(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	err = agent.Call(t.Context(), "killed", nil, remotetest.Nothing)
	failure, ok := errors.AsType[*remote.Error](err)
	if !ok || failure.Cause != remote.AgentKilled || failure.Detail["signal"] != "KILL" {
		t.Errorf("%v", err)
	}
	agent.Close()
}

// TestStopped: the cluster's data about a pod explain why it cannot be entered, and preflight does
// not try to enter it.
func TestStopped(t *testing.T) {
	for _, test := range []struct {
		name, spec, status, meta, reason string
		cause                            remote.Cause
	}{
		{"image", "", `"phase":"Pending","containerStatuses":[{"name":"train","state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image \"x\""}}}]`, "",
			`train: ImagePullBackOff: Back-off pulling image "x"`, remote.PodPending},
		{"no room", "", `"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/4 nodes are available: 4 Insufficient nvidia.com/gpu."}]`, "",
			"Unschedulable: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.", remote.PodPending},
		{"init", "", `"phase":"Pending","initContainerStatuses":[{"name":"fetch","state":{"running":{}}}],"containerStatuses":[{"name":"train","state":{"waiting":{"reason":"PodInitializing"}}}]`, "",
			"its init container fetch is still running", remote.PodPending},
		{"init crashes", "", `"phase":"Pending","initContainerStatuses":[{"name":"fetch","state":{"waiting":{"reason":"CrashLoopBackOff"}}}],"containerStatuses":[{"name":"train","state":{"waiting":{"reason":"PodInitializing"}}}]`, "",
			"fetch: CrashLoopBackOff", remote.PodPending},
		{"crashes", "", `"phase":"Running","containerStatuses":[{"name":"train","state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 5m0s"}}}]`, "",
			"train: CrashLoopBackOff: back-off 5m0s", remote.PodUnready},
		{"killed", "", `"phase":"Running","containerStatuses":[{"name":"train","state":{"terminated":{"reason":"OOMKilled","exitCode":137}}}]`, "",
			"train: OOMKilled: it ended with status 137", remote.PodUnready},
		{"evicted", "", `"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory.\u001b[31m"`, "", `Failed: Evicted: The node was low on resource: memory.\x1b[31m`, remote.PodEnded},
		{"done", "", `"phase":"Succeeded"`, "", "Succeeded", remote.PodEnded},
		{"leaving", "", `"phase":"Running","containerStatuses":[{"name":"train","state":{"running":{}}}]`, `,"deletionTimestamp":"2026-01-01T00:00:00Z"`, "it is being deleted", remote.PodEnded},
		{"another container", `{"name":"main"},{"name":"proxy"}`, `"phase":"Running"`, "", "it has main, proxy, fetch, and no train", remote.NoPodContainer},
		{"unknown", "", `"phase":"Pending"`, "", "no reason given", remote.PodPending},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.spec == "" {
				test.spec = `{"name":"train"}`
			}
			_, client, dir := cluster(t, time.Minute, Options{Container: "train"},
				fmt.Sprintf(`{"metadata":{"name":"w1","namespace":"ml"%s},"spec":{"containers":[%s],"initContainers":[{"name":"fetch"}]},"status":{%s}}`, test.meta, test.spec, test.status))
			_, trace, err := client.Reach(t.Context(), "w1")
			failure, ok := errors.AsType[*remote.Error](err)
			if !ok || failure.Cause != test.cause || !strings.HasPrefix(failure.Detail["reason"], test.reason) || failure.Detail["namespace"] != "ml" || failure.Detail["container"] != "train" {
				t.Errorf("%v, detail %v", err, failure.Detail)
			}
			if !slices.Equal(trace.Options, []string{"--container=train"}) { // the fixes repeat these options
				t.Errorf("options %q", trace.Options)
			}
			if asked, _ := os.ReadFile(filepath.Join(dir, "asked")); strings.Contains(string(asked), "exec") {
				t.Errorf("asked %s", asked)
			}
		})
	}
}

// TestNoList: a refusal of the API server is reported once, with its cause.
func TestNoList(t *testing.T) {
	for says, want := range map[string]remote.Cause{
		"E1123 21:48:44.243093 3919 memcache.go:265] \"Unhandled Error\" err=\"…\"\nThe connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?": remote.NoCluster,
		"Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by unknown authority":                                                           remote.NoCluster,
		"Error in configuration: context was not found for specified context: nope":                                                                                                   remote.NoCluster,
		"error: You must be logged in to the server (Unauthorized)":                                                                                                                   remote.NotLoggedIn,
		"Please enter Username: error: EOF": remote.NotLoggedIn,
		"Unable to connect to the server: getting credentials: exec: executable gke-gcloud-auth-plugin not found": remote.NotLoggedIn,
		`Error from server (Forbidden): pods is forbidden: User "ann" cannot list resource "pods"`:                remote.Forbidden,
		"what nobody has ever said": remote.NoCluster,
	} {
		t.Run(says[:20], func(t *testing.T) {
			carrier, client, dir := cluster(t, time.Minute, Options{})
			write(t, filepath.Join(dir, "says"), says)
			again, err := New(t.Context(), carrier.options)
			if err != nil {
				t.Fatal(err)
			}
			*carrier = *again
			_, err = carrier.Hosts()
			failure, ok := errors.AsType[*remote.Error](err)
			if !ok || failure.Cause != want || strings.Contains(failure.Err.Error(), "memcache") {
				t.Errorf("hosts: %v", err)
			}
			_, _, err = client.Reach(t.Context(), "w1")
			if failure, ok := errors.AsType[*remote.Error](err); want != remote.Forbidden && (!ok || failure.Cause != want || failure.Host != "w1") {
				t.Errorf("w1: %v", err)
			} else if want == remote.Forbidden && err != nil && failure.Cause == want {
				t.Errorf("w1 was not tried: %v", err)
			}
		})
	}
}

// TestStalled: an API server that stalls costs the time limit of one node, not that of all nodes.
func TestStalled(t *testing.T) {
	carrier, _, dir := cluster(t, time.Second, Options{})
	write(t, filepath.Join(dir, "hangs"), "")
	began := time.Now()
	again, err := New(t.Context(), carrier.options)
	if err != nil {
		t.Fatal(err)
	}
	_, err = again.Hosts()
	if failure, ok := errors.AsType[*remote.Error](err); !ok || failure.Cause != remote.NoCluster || !strings.Contains(failure.Err.Error(), "got no answer within ") {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > time.Second+remotetest.Slack {
		t.Errorf("took %v", took)
	}
}

func TestHosts(t *testing.T) {
	of := func(name, labels string) string {
		return strings.Replace(fmt.Sprintf(running, name), `"namespace":"ml"`, `"namespace":"ml",`+labels, 1)
	}
	ended := func(text string) string { return strings.Replace(text, "Running", "Failed", 1) }
	replica := func(kind, index string) string {
		return fmt.Sprintf(`"labels":{"training.kubeflow.org/replica-type":%q,"training.kubeflow.org/replica-index":%q}`, kind, index)
	}
	for _, test := range []struct {
		job, selector string
		pods          []string
		asked         string
		want          []string
	}{
		{"pytorchjob/llm", "", []string{of("llm-worker-10", replica("worker", "10")), of("llm-worker-2", replica("worker", "2")), of("llm-master-0", replica("master", "0"))},
			"--selector=training.kubeflow.org/job-name=llm", []string{"llm-master-0", "llm-worker-2", "llm-worker-10"}},
		{"job/llm", "", []string{of("llm-1-x", `"annotations":{"batch.kubernetes.io/job-completion-index":"1"}`), ended(of("llm-0-a", `"labels":{"batch.kubernetes.io/job-completion-index":"0"}`)), of("llm-0-z", `"labels":{"batch.kubernetes.io/job-completion-index":"0"}`), ended(of("llm-2-b", `"labels":{"batch.kubernetes.io/job-completion-index":"2"}`))},
			"--selector=job-name=llm", []string{"llm-0-z", "llm-1-x", "llm-2-b"}},
		{"JobSet/llm", "app=x", []string{of("llm-w-1-0", `"labels":{"jobset.sigs.k8s.io/replicatedjob-name":"w","jobset.sigs.k8s.io/job-index":"1","batch.kubernetes.io/job-completion-index":"0"}`), of("llm-w-0-1", `"labels":{"jobset.sigs.k8s.io/replicatedjob-name":"w","jobset.sigs.k8s.io/job-index":"0","batch.kubernetes.io/job-completion-index":"1"}`)},
			"--selector=app=x,jobset.sigs.k8s.io/jobset-name=llm", []string{"llm-w-0-1", "llm-w-1-0"}},
		{"lws/llm", "", []string{of("b", `"labels":{"leaderworkerset.sigs.k8s.io/group-index":"1","leaderworkerset.sigs.k8s.io/worker-index":"0"}`), of("c", `"labels":{"leaderworkerset.sigs.k8s.io/group-index":"0","leaderworkerset.sigs.k8s.io/worker-index":"1"}`)},
			"--selector=leaderworkerset.sigs.k8s.io/name=llm", []string{"c", "b"}},
		{"mpijob/llm", "", []string{of("llm-worker-0", replica("worker", "0"))}, "--selector=training.kubeflow.org/job-name=llm,training.kubeflow.org/job-role=worker", []string{"llm-worker-0"}},
		{"podgroup/llm", "", []string{of("v", `"annotations":{"scheduling.k8s.io/group-name":"llm"}`), of("s", `"labels":{"scheduling.x-k8s.io/pod-group":"llm"}`), of("other", `"labels":{"scheduling.x-k8s.io/pod-group":"other"}`)},
			"get pods --output=json", []string{"s", "v"}},
		{"", "app=x", []string{of("w10", `"labels":{}`), of("w9", `"labels":{}`), of("--evil", `"labels":{}`)}, "--selector=app=x", []string{"w9", "w10"}},
	} {
		t.Run(test.job+test.selector, func(t *testing.T) {
			carrier, _, dir := cluster(t, time.Minute, Options{Job: test.job, Selector: test.selector}, test.pods...)
			hosts, err := carrier.Hosts()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, host := range hosts {
				got = append(got, host.Name)
				if !slices.Equal(host.Slots, []int{0, 1}) {
					t.Errorf("%s has slots %v", host.Name, host.Slots)
				}
			}
			if asked, _ := os.ReadFile(filepath.Join(dir, "asked")); !slices.Equal(got, test.want) || !strings.HasSuffix(strings.TrimSpace(string(asked)), test.asked) {
				t.Errorf("%v for %s", got, asked)
			}
		})
	}
	carrier, _, _ := cluster(t, time.Minute, Options{Selector: "app=y"})
	if _, err := carrier.Hosts(); err == nil || !strings.Contains(err.Error(), "no pod matches --selector app=y") {
		t.Errorf("%v", err)
	}
}

func TestChoose(t *testing.T) {
	for job, want := range map[string]string{"llm": "KIND/NAME", "pod/llm": "--selector", "job/": "write job/NAME", "job/a,b=c": "is not the name"} {
		if _, err := New(t.Context(), Options{Job: job}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", job, err)
		}
	}
}
