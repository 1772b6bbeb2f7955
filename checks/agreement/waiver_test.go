// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"preflight/checks"
	"testing"
)

// TestWaiversOfDrift checks which facts a waiver of drift may name. drift reports a removed
// interface as a whole, so a waiver may also name the interface.
func TestWaiversOfDrift(t *testing.T) {
	for _, fact := range []string{"*", "net.interfaces.eth1", "net.interfaces.eth0.mtu", "net.mtu", "python.packages.*",
		"python.*", "python.*torch*", "nvml.*", "gpu.*", "net.*", "net.interfaces.eth0.100", "net.interfaces.eth0.addresses", "host.machine_id", "nvml.cards.3"} {
		if err := ValidWaiver(checks.Waiver{Check: "drift", Fact: fact}); err != nil {
			t.Errorf("%s: %v", fact, err)
		}
	}
	for _, fact := range []string{"pyton.*", "net.interfaces.eth0.mtuu", "nvml.cards.3.nothing", ""} {
		if ValidWaiver(checks.Waiver{Check: "drift", Fact: fact}) == nil {
			t.Errorf("there is no fact %q, and it may be waived", fact)
		}
	}
	if ValidWaiver(checks.Waiver{Check: "expectation", Fact: "net.interfaces.eth1"}) == nil {
		t.Error("an expectation is never of a whole interface")
	}
}
