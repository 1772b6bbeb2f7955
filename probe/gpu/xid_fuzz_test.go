// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"testing"

	"preflight/internal/lazyregexp"
)

// FuzzParseXid checks that for any kernel log, the result is a valid Xid with a time that is not in
// the future.
func FuzzParseXid(f *testing.F) {
	f.Add("4,1234,98765432,-;NVRM: Xid (PCI:0000:4b:00): 79, pid=1, GPU has fallen off the bus.\n", 100.0)
	f.Add("4,1234,98765432,-;nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n", 100.0)
	f.Add("4,1234,99999999999999999999,-;NVRM: Xid (PCI:0000:4b:00): 79", 1.0)
	f.Fuzz(func(t *testing.T, record string, uptime float64) {
		for _, line := range []*lazyregexp.Regexp{xidLine, sxidLine} {
			if xid, ok := parseXid(record, line, uptime); ok && (xid.Code < 0 || xid.Code > 999999 || xid.Age < 0 || xid.Address == "") {
				t.Errorf("%q is %+v", record, xid)
			}
		}
	})
}
