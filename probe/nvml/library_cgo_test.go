// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvml

import (
	"bytes"
	"strings"
	"testing"
)

func TestWhyALibraryIsNotTaken(t *testing.T) {
	for path, want := range map[string]string{
		"libm.so.6":          "libm.so.6 has no nvmlInit", // go-nvml would call nvmlInit anyway
		"libpreflight.so.77": "libpreflight.so.77: cannot open shared object file",
	} {
		var out bytes.Buffer
		if err := load(lines{&out}, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
		if output := spoken(t, &out); len(output) != 1 || output[0].Call != "dlopen "+path {
			t.Errorf("%s: announced %+v", path, output)
		}
	}
}
