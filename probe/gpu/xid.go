// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"preflight/facts"
	"preflight/lazyregexp"
	"preflight/probe/machine"
)

const (
	// xidMost are kept, the newest.
	xidMost = 100
	// kernelRecord is more than one record of the kernel's log (Linux,
	// kernel/printk/internal.h, PRINTK_MESSAGE_MAX).
	kernelRecord = 8 << 10
)

// readXids are the errors that NVIDIA's driver reported to the kernel log since
// boot, the newest last; nil, with the reason, when the log may not be read. What
// was written before the log's oldest record is lost.
func readXids(ctx context.Context, o machine.Options) (xids []facts.Xid, unread string) {
	log, err := openKernelLog(o.At("/dev/kmsg"))
	if err != nil {
		return nil, machine.Reason(err)
	}
	defer log.close()
	up, _, _ := strings.Cut(machine.Line(o.At("/proc/uptime")), " ")
	uptime, err := strconv.ParseFloat(up, 64)
	if err != nil {
		return nil, "/proc/uptime does not tell how long ago its lines are"
	}
	xids = []facts.Xid{}
	records := bufio.NewReaderSize(log, 2*kernelRecord)
	for ctx.Err() == nil {
		record, err := records.ReadString('\n')
		if xid, ok := parseXid(record, uptime); ok {
			xids = append(xids[max(0, len(xids)-xidMost+1):], xid)
		}
		if err != nil {
			break
		}
	}
	return xids, ""
}

// xidLine is a report, as drivers have written it: the address is of the GPU and,
// with MIG, of a part of it; before driver 390 there was no word before it.
//
//	NVRM: Xid (PCI:0000:4e:00): 79, pid=2131, name=python, GPU has fallen off the bus.
//	NVRM: Xid (PCI:0000:41:00 GPU-I:05): 43, pid=977, Ch 00000010
var xidLine = lazyregexp.New(`^NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{1,32})[^)]*\): (\d{1,6})(?:, ?(.*))?$`)

// parseXid reads a record of /dev/kmsg: "4,1234,98765432,-;NVRM: Xid (…", whose
// third number is microseconds since boot (Linux, Documentation/ABI/testing/dev-kmsg).
func parseXid(record string, uptime float64) (facts.Xid, bool) {
	head, text, _ := strings.Cut(strings.TrimRight(record, "\n"), ";")
	if !strings.HasPrefix(text, "NVRM: Xid ") { // most records
		return facts.Xid{}, false
	}
	match := xidLine.FindStringSubmatch(text)
	fields := strings.Split(head, ",")
	if match == nil || len(fields) < 3 {
		return facts.Xid{}, false
	}
	since, err := strconv.ParseUint(fields[2], 10, 63)
	if err != nil {
		return facts.Xid{}, false
	}
	code, _ := strconv.Atoi(match[2]) // six digits
	return facts.Xid{Code: code, Address: strings.ToLower(match[1]), Age: max(0, uptime-float64(since)/1e6), Text: machine.Clipped(match[3])}, true
}

// kernelLog is /dev/kmsg without waiting for what is yet to come. An os.File would
// wait, for it asks the kernel to be told.
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
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.EPIPE): // overwritten before we came to it
		case err != nil || n == 0: // above all EAGAIN: that was the newest
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (l kernelLog) close() { _ = syscall.Close(l.fd) } // nothing was written
