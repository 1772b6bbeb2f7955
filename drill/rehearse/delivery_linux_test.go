// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"preflight/drill/smoke"
	"preflight/facts"
)

// TestVanished kills a rank that torchrun started. The node reports it once, after its last words,
// and removes torchrun's temporary directory, which torchrun itself leaves. It keeps a directory that
// the user chose with --log-dir, even one with the name of a temporary directory.
func TestVanished(t *testing.T) {
	dir := t.TempDir()
	p := &rehearsal{Delivery: Delivery{ID: "preflight-" + rand.Text(), Dir: dir, Name: "train.py"}, ranks: map[string]*said{}, before: smoke.SharedMemory(shm)}
	if err := p.deliver(); err != nil {
		t.Fatal(err)
	}
	of := []string{filepath.Join(dir, "torchelastic_0a_b12cd"), filepath.Join(dir, "torchelastic_logs")}
	for _, of := range of {
		if err := os.MkdirAll(filepath.Join(of, "0"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var ranks []*exec.Cmd
	say := func(i int, text string) {
		file, err := os.OpenFile(filepath.Join(p.own(), fmt.Sprintf("rank-%d", ranks[i].Process.Pid)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		fmt.Fprint(file, text)
	}
	for i := range 2 {
		cmd := exec.CommandContext(t.Context(), "sleep", "1000")
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "TORCHELASTIC_ERROR_FILE="+filepath.Join(of[i], "0", "error.json"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ranks = append(ranks, cmd)
		say(i, "")
	}
	p.news() // the first look finds their files, the second sees them alive
	p.news()
	for i := range ranks {
		say(i, fmt.Sprintf(`{"event": "begin", "stage": "import", "rank": "%d"}`+"\n", i))
	}
	p.news()
	if lines := p.news(); len(lines) != 0 {
		t.Errorf("got %+v of ranks that run", lines)
	}
	say(1, `{"event": "failed", "stage": "import", "rank": "1"}`+"\n")
	for _, cmd := range ranks {
		cmd.Process.Kill()
		cmd.Wait()
	}
	lines := p.news()
	if len(lines) != 2 || lines[0].Event != "failed" || lines[1].Rank != "0" || lines[1].Stage != "import" || lines[1].Event != "ended" || lines[1].How != facts.EndVanished {
		t.Errorf("got %+v", lines)
	}
	if lines := p.news(); len(lines) != 0 {
		t.Errorf("got %+v a second time", lines)
	}
	if done := p.end(); len(done.Left) != 0 {
		t.Errorf("left %q", done.Left)
	}
	if _, err := os.Stat(of[0]); !os.IsNotExist(err) {
		t.Errorf("torchrun's directory is left: %v", err)
	}
	if _, err := os.Stat(of[1]); err != nil {
		t.Errorf("the user's directory is removed: %v", err)
	}
}
