package explain

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Source is one log.
type Source struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Explain reads the logs of one job, in one file or one a node or rank, and says
// what it died of. Memory does not grow with the size of the logs. The error is of
// the logs that could not be read to their end; the report is of all the rest.
func (c *Catalogue) Explain(sources []Source) (Report, error) {
	seen := newTally(len(sources))
	var failed []error
	for i, source := range sources {
		seen.sources = append(seen.sources, source.Name)
		if err := c.read(source, i, seen); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", source.Name, err))
		}
	}
	return c.judge(seen), errors.Join(failed...)
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
	m := matcher{catalogue: c, file: number, position: seen.lines, seen: seen, vain: map[*pattern]int{}, repeats: map[*Signature]*repeat{}, same: map[uint64]*hearing{}}
	if seen.many {
		m.node = nodeOfFile(source.Name)
	}
	err = c.index.scan(text, func(l scanned) {
		m.take(l)
		seen.lines = m.position
	})
	m.settle(true)
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
