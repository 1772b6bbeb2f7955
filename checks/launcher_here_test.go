package checks

import "testing"

func TestLaunchedFrom(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*launchable)
		want   string
	}{
		{"a machine of its own", func(*launchable) {}, ""},
		{"one of the nodes", func(l *launchable) { l.Head.Host = healthyHost(1) }, "w2"},
		{"a container on one of them", func(l *launchable) {
			l.Head.Host = healthyHost(1)
			l.Head.Host.NetNamespace = "net:[4026532000]"
		}, ""},
		{"it was not looked at", func(l *launchable) { l.Head = nil }, ""},
		{"it does not tell", func(l *launchable) {
			l.Head.Host, l.Nodes[0].Host = healthyHost(0), healthyHost(0)
			l.Head.Host.BootID, l.Nodes[0].Host.BootID = "", ""
		}, ""},
		{"the first of two entries", func(l *launchable) { l.Head.Host, l.Nodes[2].Host = healthyHost(1), healthyHost(1) }, "w2"},
		{"the node was not seen", func(l *launchable) { l.Head.Host, l.Nodes[1].Host = healthyHost(1), nil }, ""},
	} {
		fleet := healthyFleet(3)
		c.change(&fleet)
		if got := evaluate(fleet).LaunchedFrom; got != c.want {
			t.Errorf("%s: launched from %q, want %q", c.name, got, c.want)
		}
	}
}
