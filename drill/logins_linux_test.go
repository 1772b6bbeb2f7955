// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/testhosts"
)

// asNode is the variable that makes the test binary log in from a node of a cluster. Its value is
// the peers as JSON.
const asNode = "DRILL_LOGINS"

func TestMain(m *testing.M) {
	orders := os.Getenv(asNode)
	if orders == "" {
		os.Exit(m.Run())
	}
	var logins Logins
	if err := json.Unmarshal([]byte(orders), &logins); err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(logins.Run(context.Background())); err != nil {
		os.Exit(1)
	}
}

// logInFrom makes a node log in to its peers.
func logInFrom(t *testing.T, node *testhosts.Node, logins Logins) (seen facts.Logins) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if logins.Deadline == 0 {
		logins.Deadline = 8 * time.Second
	}
	orders, err := json.Marshal(logins)
	if err != nil {
		t.Fatal(err)
	}
	cmd := node.Command(t.Context(), self)
	cmd.Env = append(cmd.Env, asNode+"="+string(orders))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

// TestLogins makes real logins between real nodes, with every problem that a login can have.
// Whatever the result is, the node that logs in must stay unchanged.
func TestLogins(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	testhosts.InParts(t, testhosts.Options{Name: "drill", Nodes: 3, Share: []string{filepath.Dir(self)}}, logins)
}

func logins(t *testing.T, cluster *testhosts.Cluster, mine func(row int) bool) {
	w1, w3 := cluster.Nodes[0], cluster.Nodes[2]
	write := func(name, text string) func() (testhosts.Undo, error) {
		return func() (testhosts.Undo, error) {
			undo := func() error { _, err := w1.Run(context.Background(), "rm", name); return err }
			return undo, w1.WriteFile(name, []byte(text), 0o600)
		}
	}
	forget := func(then string) func() (testhosts.Undo, error) {
		return func() (testhosts.Undo, error) {
			const script = `cp -a /root/.ssh /root/kept && for f in /etc/ssh/ssh_known_hosts /root/.ssh/known_hosts; do [ ! -f $f ] || { cp -a $f $f.kept; sed -i /w3/d $f; }; done; printf %b "$0" >> /root/.ssh/config`
			const back = `rm -rf /root/.ssh && mv /root/kept /root/.ssh; f=/etc/ssh/ssh_known_hosts; [ ! -f $f.kept ] || mv $f.kept $f`
			_, err := w1.Run(context.Background(), "sh", "-c", script, then)
			return func() error { _, err := w1.Run(context.Background(), "sh", "-c", back); return err }, err
		}
	}
	tests := []struct {
		name   string
		plant  func() (testhosts.Undo, error)
		logins Logins
		want   facts.Logins
	}{
		{"none", nil, Logins{Peers: []string{"w2", "w3"}}, facts.Logins{Passed: []string{"w2", "w3"}}},
		{"a name nobody knows", nil, Logins{Peers: []string{"w9", "w3"}},
			facts.Logins{Passed: []string{"w3"}, Failed: []facts.Login{{Peer: "w9", Cause: "name"}}}},
		{"a name that looks like an option", nil, Logins{Peers: []string{"-oProxyCommand=touch /root/hacked"}},
			facts.Logins{Passed: []string{}, Failed: []facts.Login{{Peer: "-oProxyCommand=touch /root/hacked", Cause: "other"}}}},
		{"another port", nil, Logins{Peers: []string{"w3"}, Port: 2222},
			facts.Logins{Passed: []string{}, Failed: []facts.Login{{Peer: "w3", Cause: "connect"}}}},
		{"dropped", func() (testhosts.Undo, error) { return w3.Drop("22") }, Logins{Peers: []string{"w2", "w3"}},
			facts.Logins{Passed: []string{"w2"}, Failed: []facts.Login{{Peer: "w3", Cause: "timeout"}}}},
		{"another host key", w3.ChangeHostKey, Logins{Peers: []string{"w3"}},
			facts.Logins{Passed: []string{}, Failed: []facts.Login{{Peer: "w3", Cause: "host-key-changed"}}}},
		{"an unknown host key", forget(""), Logins{Peers: []string{"w3"}},
			facts.Logins{Passed: []string{}, Failed: []facts.Login{{Peer: "w3", Cause: "host-key"}}}},
		{"an unknown host key that ssh accepts", forget(`Host *\nStrictHostKeyChecking accept-new\n`), Logins{Peers: []string{"w3"}},
			facts.Logins{Passed: []string{"w3"}}},
		{"a shared connection is configured", forget(`Host *\nStrictHostKeyChecking no\nControlMaster auto\nControlPath /root/control\nControlPersist yes\nLogLevel QUIET\n`),
			Logins{Peers: []string{"w3"}}, facts.Logins{Passed: []string{"w3"}}},
		{"an unknown host key that ssh accepts from one peer", forget(`Host w3\nStrictHostKeyChecking accept-new\n`), Logins{Peers: []string{"w2", "w3"}},
			facts.Logins{Passed: []string{"w2", "w3"}}},
		{"no common key exchange with one peer", write("/root/.ssh/config", "Host w3\n\tKexAlgorithms diffie-hellman-group1-sha1\n"), Logins{Peers: []string{"w2", "w3"}},
			facts.Logins{Passed: []string{"w2"}, Failed: []facts.Login{{Peer: "w3", Cause: "other"}}}},
		{"no authorized key", w3.RemoveAuthorizedKey, Logins{Peers: []string{"w3"}},
			facts.Logins{Passed: []string{}, Failed: []facts.Login{{Peer: "w3", Cause: "denied"}}}},
		{"no shell", w3.NoLoginShell, Logins{Peers: []string{"w3"}},
			facts.Logins{Passed: []string{}, Failed: []facts.Login{{Peer: "w3", Cause: "shell"}}}},
		{"a proxy that hangs", write("/root/.ssh/config", "Host w3\n\tProxyCommand sleep 987\n"), Logins{Peers: []string{"w2", "w3"}, Deadline: 2500 * time.Millisecond},
			facts.Logins{Passed: []string{"w2"}, Untried: []string{"w3"}}},
	}
	for i, tt := range tests {
		if !mine(i) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			if tt.plant != nil {
				undo, err := tt.plant()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := undo(); err != nil {
						t.Error(err)
					}
				})
			}
			before := home(t, w1)
			got := logInFrom(t, w1, tt.logins)
			for i, failure := range got.Failed {
				if failure.Message == "" || failure.Seconds <= 0 {
					t.Errorf("%+v", failure)
				}
				got.Failed[i].Message, got.Failed[i].Seconds = "", 0
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, home(t, w1)); diff != "" {
				t.Errorf("the node changed:\n%s", diff)
			}
			if left, _ := w1.Run(t.Context(), "pgrep", "-a", "-f", "^ssh[: ]|/ssh |sleep 987"); left != "" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

// home lists the files in the home directory of a node.
func home(t *testing.T, node *testhosts.Node) []string {
	t.Helper()
	found, err := node.Run(t.Context(), "find", "/root", "-printf", `%p %s %T@\n`)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(strings.Lines(found))
}
