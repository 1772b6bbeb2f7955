// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"io/fs"
	"syscall"
)

// ReadFile is [os.ReadFile] for the small files in which a kernel says something. Package os
// asks of every file it opens to be told when there is more to read, and how long it is:
// more than half of what reading such a file takes, and a node has hundreds read.
func ReadFile(path string) ([]byte, error) {
	file, err := again(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(file)
	text := make([]byte, 0, 256)
	for {
		n, err := again(func() (int, error) { return syscall.Read(file, text[len(text):cap(text)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return text, nil
		}
		if text = text[:len(text)+n]; len(text) == cap(text) {
			text = append(text, make([]byte, 3*len(text))...)[:len(text)]
		}
	}
}

// again calls until no signal comes between.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != syscall.EINTR {
			return n, err
		}
	}
}
