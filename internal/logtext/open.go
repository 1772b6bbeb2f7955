// SPDX-License-Identifier: Apache-2.0

// Package logtext opens files that may be logs: it unpacks and decodes them, and turns lines in JSON
// into plain lines. It does not know what a log means.
package logtext

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Open returns the text of a file that may be compressed with gzip, bzip2, xz or zstd, or
// encoded in UTF-16 with a byte order mark, as PowerShell writes it.
func Open(file io.Reader) (*bufio.Reader, error) {
	in, start := sniff(file)
	unpacker := unpackerOf(start)
	if unpacker == nil {
		return asText(in, start, "the file")
	}
	inside, err := unpacker(in)
	if err != nil {
		return nil, err
	}
	in, start = sniff(inside)
	if unpackerOf(start) != nil {
		return nil, errors.New("the file is compressed twice: unpack it until it is text")
	}
	return asText(in, start, "the compressed content")
}

func sniff(file io.Reader) (in *bufio.Reader, start []byte) {
	in = bufio.NewReaderSize(file, Sniffed)
	start, _ = in.Peek(Sniffed)
	return in, start
}

// asText returns the text of a file with this start, or an error if it is not text. If the start is
// empty or could not be read, the caller gets the error from the next read.
func asText(in *bufio.Reader, start []byte, what string) (*bufio.Reader, error) {
	switch {
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return nil, fmt.Errorf("%s is an archive: unpack it, for example with `unzip FILE`, and give explain the directory", what)
	case len(start) > tarMagic && bytes.HasPrefix(start[tarMagic:], []byte("ustar")):
		return nil, fmt.Errorf("%s is an archive: unpack it, for example with `tar -xf FILE`, and give explain the directory", what)
	case !Readable(start):
		return nil, fmt.Errorf("%s is not text", what)
	case wide(start):
		return bufio.NewReaderSize(transform.NewReader(in, unicode.BOMOverride(unicode.UTF8.NewDecoder())), Sniffed), nil
	}
	return in, nil
}

// unpackerOf returns the unpacker for a file with this start, nil if the file is not compressed.
func unpackerOf(start []byte) func(io.Reader) (io.Reader, error) {
	for magic, unpacker := range unpackers {
		if bytes.HasPrefix(start, []byte(magic)) {
			return unpacker
		}
	}
	return nil
}

// Sniffed is the number of bytes of a file that Readable needs.
const Sniffed = 4096

// tarMagic is the offset of the magic number in a tar archive (POSIX pax, ustar interchange
// format).
const tarMagic = 257

// unpackers maps the first bytes of a compressed format to its unpacker.
var unpackers = map[string]func(io.Reader) (io.Reader, error){
	"\x1f\x8b":     func(in io.Reader) (io.Reader, error) { return gzip.NewReader(in) },
	"BZh":          func(in io.Reader) (io.Reader, error) { return bzip2.NewReader(in), nil },
	"\xfd7zXZ\x00": func(in io.Reader) (io.Reader, error) { return xz.NewReader(in) },
	"\x28\xb5\x2f\xfd": func(in io.Reader) (io.Reader, error) {
		// Decode with one goroutine, which ends by itself, and with the window size that zstd
		// itself accepts without --long=31.
		return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	},
}

func wide(start []byte) bool {
	return bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff"))
}

// Readable reports whether a file with this start can be a log. Logs can contain NUL bytes: NFS
// leaves NUL bytes when two nodes write to one file.
func Readable(start []byte) bool {
	if unpackerOf(start) != nil || wide(start) || len(start) == 0 {
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
