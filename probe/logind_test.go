package probe

import (
	"maps"
	"testing"
)

func TestRemoveIPC(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing configured": {nil, "yes"},
		"shipped by Red Hat": {map[string]string{"/etc/systemd/logind.conf": "[Login]\n#KillUserProcesses=no\n#RemoveIPC=no\n"}, "no"},
		"set":                {map[string]string{"/etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\nRemoveIPC = off\n"}, "no"},
		"drop-in wins": {map[string]string{"/etc/systemd/logind.conf": "RemoveIPC=no\n",
			"/etc/systemd/logind.conf.d/50-ipc.conf": "RemoveIPC=yes\n"}, "yes"},
		"later drop-in wins": {map[string]string{"/run/systemd/logind.conf.d/90.conf": "RemoveIPC=1\n",
			"/etc/systemd/logind.conf.d/10.conf": "RemoveIPC=0\n"}, "yes"},
		"/etc hides its namesake": {map[string]string{"/usr/lib/systemd/logind.conf.d/10.conf": "RemoveIPC=no\n",
			"/etc/systemd/logind.conf.d/10.conf": "[Login]\n"}, "yes"},
		"main file of the vendor":         {map[string]string{"/usr/lib/systemd/logind.conf": "RemoveIPC=no\n"}, "no"},
		"nonsense":                        {map[string]string{"/etc/systemd/logind.conf": "RemoveIPC=maybe\nNoRemoveIPC=no\n"}, "yes"},
		"a comment in a drop-in is prose": {map[string]string{"/etc/systemd/logind.conf.d/1.conf": "# RemoveIPC=no is what we had before\n"}, "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"/lib/systemd/systemd-logind": "", "/run/systemd/system/x": ""}
			maps.Copy(files, test.files)
			if got := removeIPC(write(t, options{}, files)); got != test.want {
				t.Errorf("RemoveIPC is %q, want %q", got, test.want)
			}
		})
	}
}

func TestRemoveIPCWithoutLogind(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"not installed":                  {"/run/systemd/system/x": "", "/etc/systemd/logind.conf": "RemoveIPC=yes\n"},
		"installed in a container image": {"/usr/lib/systemd/systemd-logind": "", "/etc/systemd/logind.conf": "RemoveIPC=yes\n"},
	} {
		if got := removeIPC(write(t, options{}, files)); got != "" {
			t.Errorf("%s: RemoveIPC is %q, want none", name, got)
		}
	}
}
