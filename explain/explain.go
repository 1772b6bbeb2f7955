package explain

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Source is one log.
type Source struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Explain reads the logs of one job, in one file or one a node or rank, and says
// what it died of. Memory does not grow with the size of the logs. What cannot be
// read to its end is told in the report, which is of all the rest.
func (c *Catalogue) Explain(sources []Source) Report {
	seen := newTally(len(sources))
	for i, source := range sources {
		seen.sources = append(seen.sources, source.Name)
		if err := c.read(source, i, seen); err != nil {
			seen.unread = append(seen.unread, Unread{source.Name, err.Error()})
		}
	}
	return c.judge(seen)
}

func (c *Catalogue) read(source Source, number int, seen *tally) error {
	file, err := source.Open()
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := unpacked(file)
	if err != nil {
		return err
	}
	m := matcher{catalogue: c, file: number, seen: seen, vain: map[*pattern]int{}, repeats: map[*Signature]*repeat{}, same: map[uint64]*hearing{}}
	if seen.many {
		m.node = nodeOfFile(source.Name)
	}
	lines, err := c.index.scan(text, m.take)
	seen.lines += lines
	m.end()
	return err
}

// unpacked is the text of a file that may be compressed by gzip or bzip2, or be in
// UTF-16 with a byte order mark, as PowerShell writes it.
func unpacked(file io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(file, sniffed)
	start, _ := in.Peek(sniffed)
	for magic, name := range packed {
		if bytes.HasPrefix(start, []byte(magic)) {
			return nil, fmt.Errorf("it is compressed by %s: unpack it first, as in `%s -dc FILE | preflight explain`", name, name)
		}
	}
	switch {
	case bytes.HasPrefix(start, []byte("\x1f\x8b")):
		return gzip.NewReader(in)
	case bytes.HasPrefix(start, []byte("BZh")):
		return bzip2.NewReader(in), nil
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return transform.NewReader(in, unicode.BOMOverride(unicode.UTF8.NewDecoder())), nil
	case noText(start):
		return nil, errors.New("it is not text")
	}
	return in, nil
}

const sniffed = 4096

// packed are formats that are known and not read.
var packed = map[string]string{"\xfd7zXZ\x00": "xz", "\x28\xb5\x2f\xfd": "zstd", "PK\x03\x04": "unzip"}

// noText is whether a file begins as no log does. Some NULs are in logs: NFS leaves
// them where two nodes write one file.
func noText(start []byte) bool {
	controls := 0
	for _, c := range bytes.Trim(start, "\x00") {
		if c < ' ' && !bytes.ContainsRune([]byte("\t\n\r\x1b\b\f\a"), rune(c)) {
			controls++
		}
	}
	return len(start) > 0 && (controls > len(start)/20 || len(bytes.Trim(start, "\x00")) == 0)
}
