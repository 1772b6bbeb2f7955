// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

// FuzzDialogue lets a node answer anything during a delivery. The dialogue must end, report the
// node's answers in printable form, and send the binary no more often than there are directories.
func FuzzDialogue(f *testing.F) {
	for _, data := range []string{
		"motd\n@@preflight shell\n@@preflight heard\n@@preflight tried /tmp: noexec\n@@preflight need Linux x86_64 gzip HASH - /tmp\n@@preflight failed 126\n@@preflight none\n",
		`@@preflight {"hello":{"build":"BUILD","os":"linux","arch":"` + runtime.GOARCH + `","host":"w1","pid":1}}` + "\n",
		"@@preflight need Linux aarch64 gzip - - /tmp\n", "@@preflight need Darwin\n", "@@preflight {}\n", "@@preflight need Linux x86_64 none HASH - \x1b\n",
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var sent bytes.Buffer
		binary := &Binary{Hash: "HASH", BuildID: "BUILD", Size: 3, Gzip: func() ([]byte, error) { return []byte("gzipped"), nil }}
		d := &delivery{
			command: &command{host: "w1", stdout: &lineReader{in: bufio.NewReaderSize(bytes.NewReader(data), 16), noise: &noise{}}, stdin: nopCloser{&sent}},
			ending:  ending{host: "w1"},
			homes:   &homes{},
			binary:  func(string, string) (*Binary, error) { return binary, nil },
		}
		defer d.homes.enter(d.tag)()
		hello, err := d.dialogue(t.Context())
		if err == nil && (hello.Build != binary.BuildID || !d.hello) {
			t.Errorf("%q is greeted as %+v", data, hello)
		}
		if given := strings.Count(sent.String(), "gzipped"); given > maxPlaces || d.needs > maxPlaces || len(d.tried) > maxPlaces {
			t.Errorf("the binary is sent %d times", given)
		}
		shown := strings.Join(d.tried, "") + hello.Host + hello.Path
		if failure := (*Error)(nil); errors.As(err, &failure) {
			for _, detail := range failure.Detail {
				shown += detail
			}
		}
		if strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("unescaped: %q", shown)
		}
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
