// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"preflight/remote"
	"preflight/testhosts/remotetest"
)

// TestRealKubectl runs the real kubectl against a server that imitates a cluster's API server.
func TestRealKubectl(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skipf("NOT RUN: %s needs kubectl", t.Name())
	}
	dir := t.TempDir()
	var pods []string
	for _, stand := range []string{"", "forbidden", "bare", "severed", "dropped"} {
		pod := fmt.Sprintf(running, "w-"+stand+"0")
		pods = append(pods, strings.Replace(pod, "{", fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","stand":%q,`, stand), 1))
	}
	write(t, filepath.Join(dir, "pods"), `{"items":[`+strings.Join(pods, ",")+`]}`)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "kube"), ".")
	build.Dir = filepath.Join("..", "..", "testhosts", "kube")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// These variables also apply to the pods, which are processes of the server.
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("GORACE", strings.TrimPrefix(remotetest.PromptExit, "GORACE="))
	server := exec.Command(filepath.Join(dir, "kube"), filepath.Join(dir, "pods"))
	server.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME=")
	stdin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		server.Process.Kill()
		server.Wait()
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config")
	write(t, config, `{"apiVersion":"v1","kind":"Config","current-context":"here","clusters":[{"name":"c","cluster":{"server":"`+strings.TrimSpace(address)+`"}}],"contexts":[{"name":"here","context":{"cluster":"c","namespace":"ml"}},{"name":"gone","context":{"cluster":"d"}}]}`)
	t.Setenv("KUBECONFIG", config)

	carrier, err := New(t.Context(), Options{Selector: "app=train", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if hosts, err := carrier.Hosts(); err != nil || len(hosts) != 5 || hosts[0].Name != "w-0" || len(hosts[0].Slots) != 2 {
		t.Errorf("%+v, %v", hosts, err)
	}
	client := remote.New(carrier, remote.Options{Timeout: time.Minute})
	defer client.Close()
	agent, trace, err := client.Reach(t.Context(), "w-0")
	if err != nil {
		t.Fatal(err)
	}
	if !trace.Delivered || trace.Address != "10.0.0.7" {
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
	for pod, want := range map[string]remote.Cause{"w-forbidden0": remote.Forbidden, "w-bare0": remote.NoShell, "w-severed0": remote.KubeletDown, "w-dropped0": remote.ConnectionLost} {
		_, _, err := client.Reach(t.Context(), pod)
		if failure, ok := errors.AsType[*remote.Error](err); !ok || failure.Cause != want {
			t.Errorf("%s: %v", pod, err)
		}
	}
	agent, _, err = client.Reach(t.Context(), "w-0")
	if err != nil {
		t.Fatal(err)
	}
	err = agent.Call(t.Context(), "killed", nil, remotetest.Nothing)
	if failure, ok := errors.AsType[*remote.Error](err); !ok || failure.Cause != remote.AgentKilled || failure.Detail["signal"] != "KILL" {
		t.Errorf("%v", err)
	}
	agent.Close()

	os.Remove(config)
	for o, want := range map[Options]remote.Cause{{Context: "nowhere"}: remote.NoCluster, {}: remote.NoCluster} {
		o.Timeout = time.Minute
		carrier, err := New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = carrier.Hosts()
		if failure, ok := errors.AsType[*remote.Error](err); !ok || failure.Cause != want {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
