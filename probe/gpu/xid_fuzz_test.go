// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"testing"

	"preflight/internal/lazyregexp"
)

// FuzzParseXid checks that for any message of the kernel, the result is a valid Xid.
func FuzzParseXid(f *testing.F) {
	f.Add("NVRM: Xid (PCI:0000:4b:00): 79, pid=1, GPU has fallen off the bus.")
	f.Add("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")
	f.Fuzz(func(t *testing.T, message string) {
		for _, line := range []*lazyregexp.Regexp{xidLine, sxidLine} {
			if xid, ok := parseXid(message, line, 1); ok && (xid.Code < 0 || xid.Code > 999999 || xid.Address == "") {
				t.Errorf("%q is %+v", message, xid)
			}
		}
	})
}
