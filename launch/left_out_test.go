package launch

import (
	"slices"
	"testing"

	"preflight/hostfile"
)

// TestLeftOut: what a filter leaves out is in the hostfile all the same.
func TestLeftOut(t *testing.T) {
	all := hosts(2, 2, 2)
	for _, c := range []struct {
		file string
		want []string
	}{{"hosts", []string{all[0].Name, all[2].Name}}, {"", nil}} {
		p, err := Predict(Options{Hosts: all, HostsFile: c.file, Filter: hostfile.Filter{Include: all[1].Name}, Launcher: "pdsh"}, nil)
		if err != nil || !slices.Equal(p.LeftOut, c.want) {
			t.Errorf("hostfile %q: %q (%v), want %q", c.file, p.LeftOut, err, c.want)
		}
	}
}
