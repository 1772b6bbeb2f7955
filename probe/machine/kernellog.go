// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"preflight/internal/hostsys"
)

const (
	// kernelRecord is larger than any record of the kernel's log (Linux, kernel/printk/internal.h,
	// PRINTK_MESSAGE_MAX).
	kernelRecord = 8 << 10
	// journalLimit is the time limit for journalctl.
	journalLimit = time.Second
)

// Booted is the start of the first message that the kernel writes.
//
// Source: Linux, init/version.c, linux_banner.
const Booted = "Linux version "

// KernelLog calls take with the messages of the kernel's log, the oldest first, and with their age
// in seconds. If only systemd's journal can be read, the messages are those that match wanted, a
// regular expression of PCRE2. Messages that are older than the log's oldest record are lost.
//
// KernelLog returns the reason if it can read neither. A journal without a message that begins with
// start counts as unreadable: it does not reach back far enough.
func KernelLog(ctx context.Context, o Options, start, wanted string, take func(age float64, message string)) (unread string) {
	var log io.Reader
	if kernel, err := openKernelLog(o.At("/dev/kmsg")); err == nil {
		defer kernel.close()
		log = kernel
	} else if kept := journal(ctx, o, start, wanted); kept != "" {
		log = strings.NewReader(kept)
	} else {
		return Reason(err)
	}
	up, _, _ := strings.Cut(Line(o.At("/proc/uptime")), " ")
	uptime, err := strconv.ParseFloat(up, 64)
	if err != nil {
		return "/proc/uptime cannot be read, so the age of its lines is unknown"
	}
	records := bufio.NewReaderSize(log, 2*kernelRecord)
	for ctx.Err() == nil {
		record, err := records.ReadString('\n')
		if since, message, ok := parseRecord(record); ok {
			take(max(0, uptime-since), message)
		}
		if err != nil {
			break
		}
	}
	return ""
}

// parseRecord parses a record of /dev/kmsg, such as "4,1234,98765432,-;NVRM: Xid (…". The third
// number is microseconds since boot; parseRecord returns seconds. It returns false for the lines
// that describe the device of the record before (Linux, Documentation/ABI/testing/dev-kmsg).
func parseRecord(record string) (since float64, message string, ok bool) {
	head, message, _ := strings.Cut(strings.TrimRight(record, "\n"), ";")
	fields := strings.Split(head, ",")
	if len(fields) < 3 {
		return 0, "", false
	}
	micros, err := strconv.ParseUint(fields[2], 10, 63)
	if err != nil {
		return 0, "", false
	}
	return float64(micros) / 1e6, message, true
}

// journal returns the kernel's wanted messages since boot from systemd's journal, in the format of
// /dev/kmsg. The groups adm and systemd-journal may read the journal even if only root may read the
// kernel's log.
//
// journal returns "" if the journal has no message that begins with start. For users outside these
// groups, the journal looks empty.
//
// Source: systemd 252, journalctl(1), short-monotonic: "[    5.123456] kernel: NVRM: …".
func journal(ctx context.Context, o Options, start, wanted string) string {
	program, err := exec.LookPath("journalctl")
	if err != nil || !Exists(o.At("/run/systemd/journal")) {
		return ""
	}
	lines, _, err := hostsys.Child{
		Path: program, Args: []string{"-k", "-b", "-q", "--no-pager", "--no-hostname", "-o", "short-monotonic", "-g", wanted}, Limit: journalLimit,
	}.Run(ctx)
	if err != nil || !strings.Contains(lines, "] kernel: "+start) {
		return ""
	}
	var records strings.Builder
	for line := range strings.Lines(lines) {
		stamp, text, _ := strings.Cut(strings.TrimLeft(line, "[ "), "] kernel: ")
		if seconds, err := strconv.ParseFloat(stamp, 64); err == nil {
			fmt.Fprintf(&records, "6,0,%.0f,-;%s", seconds*1e6, text)
		}
	}
	return records.String()
}

// kernelLog reads /dev/kmsg without waiting for new records. An os.File would wait, because it
// polls the descriptor.
type kernelLog struct{ fd int }

func openKernelLog(path string) (kernelLog, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return kernelLog{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return kernelLog{fd}, nil
}

func (l kernelLog) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(l.fd, p)
		switch {
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.EPIPE): // the record was overwritten before it was read
		case err != nil || n == 0: // usually EAGAIN, which means that the last record was the newest
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (l kernelLog) close() { _ = syscall.Close(l.fd) } // nothing was written
