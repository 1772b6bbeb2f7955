// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"strings"
	"testing"
)

// FuzzNames: any content of the machine's files and of getent's output gives valid names and
// addresses.
func FuzzNames(f *testing.F) {
	f.Add("127.0.0.1 localhost # x\nfe80::1%eth0\ta b\n10.0.0.1", "hosts: files [NOTFOUND=return] dns[!UNAVAIL=return]\n", "10.0.0.1 STREAM w1\n10.0.0.1 DGRAM\n::ffff:10.0.0.1 STREAM x")
	f.Add("", "hosts:[", "")
	f.Fuzz(func(t *testing.T, hosts, nsswitch, answer string) {
		for _, line := range parseHosts(hosts) {
			if !line.Address.IsValid() || len(line.Names) == 0 || strings.ContainsAny(strings.Join(line.Names, ""), " \t\n#") {
				t.Errorf("%q says %+v", hosts, line)
			}
		}
		if line, sources := parseNSSwitch(nsswitch); line == "" && sources != nil || strings.Contains(line, "\n") {
			t.Errorf("%q says %q, %+v", nsswitch, line, sources)
		}
		for _, network := range []string{"ip4", "ip6", "ip"} {
			addresses := parseAhosts(network, answer)
			for i, address := range addresses {
				if !address.IsValid() || !isOf(network, address) || i > 0 && addresses[i-1] == address {
					t.Errorf("%q gives %v", answer, addresses)
				}
			}
		}
	})
}
