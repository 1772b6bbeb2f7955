// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"encoding/binary"
	"io"
)

// The fields of requests and replies: integers as the machine has them, and
// strings and values behind their length, an unsigned 64-bit integer.

func putString[Text string | []byte](to []byte, text Text) []byte {
	return append(binary.NativeEndian.AppendUint64(to, uint64(len(text))), text...)
}

func putStrings(to []byte, texts []string) []byte {
	to = binary.NativeEndian.AppendUint64(to, uint64(len(texts)))
	for _, text := range texts {
		to = putString(to, text)
	}
	return to
}

func putInt(to []byte, number int64) []byte {
	return binary.NativeEndian.AppendUint64(to, uint64(number))
}

func putUint32(to []byte, number uint32) []byte {
	return binary.NativeEndian.AppendUint32(to, number)
}

// piece is how much is made room for at once, whatever length was announced.
const piece = 64 << 10

// decoder reads fields. spend, where there is one, is called for every byte that
// has to be kept, before it is.
type decoder struct {
	from  io.Reader
	spend func(bytes int) error
}

func (d decoder) byte() (byte, error) {
	var field [1]byte
	_, err := io.ReadFull(d.from, field[:])
	return field[0], err
}

func (d decoder) uint32() (uint32, error) {
	var field [4]byte
	_, err := io.ReadFull(d.from, field[:])
	return binary.NativeEndian.Uint32(field[:]), err
}

func (d decoder) int() (int64, error) {
	var field [8]byte
	_, err := io.ReadFull(d.from, field[:])
	return int64(binary.NativeEndian.Uint64(field[:])), err
}

// bytes reads a length and as much behind it, unless that is more than limit.
func (d decoder) bytes(limit int) ([]byte, error) {
	announced, err := d.int()
	if err != nil {
		return nil, err
	}
	if uint64(announced) > uint64(limit) {
		return nil, errTooLong
	}
	length := int(announced)
	value := make([]byte, 0, min(length, piece))
	for len(value) < length {
		start, more := len(value), min(length-len(value), piece)
		if d.spend != nil {
			if err := d.spend(more); err != nil {
				return nil, err
			}
		}
		value = append(value, make([]byte, more)...)
		if _, err := io.ReadFull(d.from, value[start:]); err != nil {
			return nil, cutShort(err)
		}
	}
	return value, nil
}

func (d decoder) key() (string, error) {
	key, err := d.bytes(maxKey)
	return string(key), err
}

func (d decoder) value() ([]byte, error) { return d.bytes(maxValue) }

func (d decoder) count() (int, error) {
	announced, err := d.int()
	if err == nil && uint64(announced) > maxKeys {
		err = errTooMany
	}
	return int(announced), cutShort(err)
}

// cutShort is the error of reading on inside a message: its end there is never
// in order.
func cutShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
