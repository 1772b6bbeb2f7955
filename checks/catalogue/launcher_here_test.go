package catalogue

import (
	"testing"

	"preflight/checks/fleettest"
)

func TestLaunchedFrom(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fleettest.Fleet)
		want   string
	}{
		{"a machine of its own", func(*fleettest.Fleet) {}, ""},
		{"one of the nodes", func(l *fleettest.Fleet) { l.Head.Host = fleettest.HealthyHost(1) }, "w2"},
		{"a container on one of them", func(l *fleettest.Fleet) {
			l.Head.Host = fleettest.HealthyHost(1)
			l.Head.Host.NetNamespace = "net:[4026532000]"
		}, ""},
		{"it was not looked at", func(l *fleettest.Fleet) { l.Head = nil }, ""},
		{"it does not tell", func(l *fleettest.Fleet) {
			l.Head.Host, l.Nodes[0].Host = fleettest.HealthyHost(0), fleettest.HealthyHost(0)
			l.Head.Host.BootID, l.Nodes[0].Host.BootID = "", ""
		}, ""},
		{"the first of two entries", func(l *fleettest.Fleet) {
			l.Head.Host, l.Nodes[2].Host = fleettest.HealthyHost(1), fleettest.HealthyHost(1)
		}, "w2"},
		{"the node was not seen", func(l *fleettest.Fleet) { l.Head.Host, l.Nodes[1].Host = fleettest.HealthyHost(1), nil }, ""},
	} {
		fleet := fleettest.Healthy(3)
		c.change(&fleet)
		if got := judged(fleet).LaunchedFrom; got != c.want {
			t.Errorf("%s: launched from %q, want %q", c.name, got, c.want)
		}
	}
}
