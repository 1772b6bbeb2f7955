package explain

import (
	"bufio"
	"compress/gzip"
	"io"
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

// unpacked is the text of a file that may be compressed by gzip.
func unpacked(file io.Reader) (io.Reader, error) {
	in := bufio.NewReader(file)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		return gzip.NewReader(in)
	}
	return in, nil
}
