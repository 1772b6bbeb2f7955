package probe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadOps(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]bool
	}{
		"by setup.py": {
			"version='0.19.8'\ngit_hash='unknown'\ninstalled_ops={'async_io': False, 'cpu_adam': True, 'fused_adam': True}\naccelerator_name='cuda'\n",
			map[string]bool{"async_io": false, "cpu_adam": true, "fused_adam": true},
		},
		"of another hand":  {"installed_ops = {\"cpu_adam\" : True}\ncompatible_ops={'x': True}\n", map[string]bool{"cpu_adam": true}},
		"none":             {"installed_ops={}\n", map[string]bool{}},
		"of another thing": {"version='0.0'\n# installed_ops={'cpu_adam': True}\n", nil},
	} {
		dir := plant(t, "\n-- git_version_info_installed.py --\n"+c.text)
		if diff := cmp.Diff(c.want, readOps(dir)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if got := readOps(""); got != nil {
		t.Errorf("without a package: %v", got)
	}
	if got := readOps(t.TempDir()); got != nil {
		t.Errorf("in an empty directory: %v", got)
	}
}
