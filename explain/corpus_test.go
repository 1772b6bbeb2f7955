package explain

import (
	"io/fs"
	"os"
	"testing"
)

// TestRealLogs: of logs that were produced for real, with something planted, the
// planted cause is named, or what else the log alone permits.
func TestRealLogs(t *testing.T) {
	corpus := os.DirFS("testdata")
	trials, err := catalogue(t).Try(corpus)
	if err != nil {
		t.Fatal(err)
	}
	for _, trial := range trials {
		if !trial.Right {
			t.Errorf("%s: %s, is %s", trial.File, trial.Got, trial.Want)
		}
	}
	if logs, err := fs.ReadDir(corpus, "logs"); err != nil || len(logs) != len(trials) {
		t.Errorf("%d logs, %d of them with a label: %v", len(logs), len(trials), err)
	}
}
