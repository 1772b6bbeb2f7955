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
	m := matcher{catalogue: c, file: number, seen: seen, vain: map[*pattern]int{}, repeats: map[*Signature]*repeat{}, same: map[uint64]*occurrence{}}
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
	in := bufio.NewReaderSize(file, Sniffed)
	start, _ := in.Peek(Sniffed)
	for magic, name := range packed {
		if bytes.HasPrefix(start, []byte(magic)) {
			return nil, fmt.Errorf("it is compressed by %s: unpack it first, as in `%s -dc FILE | preflight explain`", name, name)
		}
	}
	switch {
	case !Readable(start):
		return nil, errors.New("it is not text")
	case bytes.HasPrefix(start, gzipped):
		return gzip.NewReader(in)
	case bytes.HasPrefix(start, bzipped):
		return bzip2.NewReader(in), nil
	case wide(start):
		return transform.NewReader(in, unicode.BOMOverride(unicode.UTF8.NewDecoder())), nil
	}
	return in, nil
}

// Sniffed is how many bytes of a file are enough for Readable.
const Sniffed = 4096

// packed are formats that are known and not read.
var packed = map[string]string{"\xfd7zXZ\x00": "xz", "\x28\xb5\x2f\xfd": "zstd", "PK\x03\x04": "unzip"}

var gzipped, bzipped = []byte("\x1f\x8b"), []byte("BZh")

// wide is whether a text is in UTF-16.
func wide(start []byte) bool {
	return bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff"))
}

// Readable is whether a file that begins so can be a log. Some NULs are in logs: NFS
// leaves them where two nodes write one file.
func Readable(start []byte) bool {
	if bytes.HasPrefix(start, gzipped) || bytes.HasPrefix(start, bzipped) || wide(start) || len(start) == 0 {
		return true
	}
	text := bytes.Trim(start, "\x00")
	controls := 0
	for _, c := range text {
		if c < ' ' && !bytes.ContainsRune([]byte("\t\n\r\x1b\b\f\a"), rune(c)) {
			controls++
		}
	}
	return len(text) > 0 && controls <= len(start)/20
}
