// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestKernelLogIsNotWaitedFor checks that reading the log does not wait. The log of a running
// kernel has no end, so the test uses an open pipe as the log.
func TestKernelLogIsNotWaitedFor(t *testing.T) {
	path := t.TempDir() + "/kmsg"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.WriteString("4,1,1,-;one\n"); err != nil {
		t.Fatal(err)
	}
	log, err := openKernelLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	buffer := make([]byte, 64)
	if n, err := log.Read(buffer); string(buffer[:n]) != "4,1,1,-;one\n" || err != nil {
		t.Errorf("%q, %v", buffer[:n], err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := log.Read(buffer)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("there was more")
		}
	case <-time.After(10 * time.Second):
		_, _ = writer.WriteString("4,2,2,-;two\n") // this write releases the reader
		t.Error("it waits for the next record")
	}
}

// FuzzParseRecord checks that for any text, the time of a record is not negative.
func FuzzParseRecord(f *testing.F) {
	f.Add("4,1234,98765432,-;NVRM: Xid (PCI:0000:4b:00): 79, pid=1, GPU has fallen off the bus.\n")
	f.Add(" DEVICE=+pci:0000:0a:00.0\n")
	f.Add("4,1234,99999999999999999999,-;one")
	f.Fuzz(func(t *testing.T, record string) {
		if since, message, ok := parseRecord(record); since < 0 || !ok && (message != "" || since != 0) {
			t.Errorf("%q is from %v: %q", record, since, message)
		}
	})
}
