// SPDX-License-Identifier: Apache-2.0

package network

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestDocker(t *testing.T) {
	for name, c := range map[string]struct {
		daemon string
		want   *facts.Docker
	}{
		"no file":      {"", &facts.Docker{}},
		"nothing said": {`{"insecure-registries": ["r:5000"]}`, &facts.Docker{}},
		"pools":        {`{"bip": "10.200.0.1/24", "default-address-pools": [{"base": "10.201.0.0/16", "size": 24}]}`, &facts.Docker{Pools: []facts.AddressPool{{Base: "10.201.0.0/16", Size: 24}}}},
		"no JSON":      {`{"bip": `, nil},
	} {
		o := machine.Options{Root: t.TempDir()}
		if c.daemon != "" {
			probetest.Write(t, o, map[string]string{"/etc/docker/daemon.json": c.daemon})
		}
		if diff := cmp.Diff(c.want, docker(o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
