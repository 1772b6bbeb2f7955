// SPDX-License-Identifier: Apache-2.0

package gpu

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

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

const (
	// xidMost is the maximum number of errors to keep. The newest are kept.
	xidMost = 100
	// kernelRecord is larger than any record of the kernel's log (Linux, kernel/printk/internal.h,
	// PRINTK_MESSAGE_MAX).
	kernelRecord = 8 << 10
)

// readXids returns the errors of GPUs and NVSwitches in the kernel log, newest last. It returns
// those that NVIDIA's driver has written since it was loaded. If the log cannot be read, it returns
// nil and the reason. Errors that are older than the log's oldest record are lost.
func readXids(ctx context.Context, o machine.Options) (xids, sxids []facts.Xid, unread string) {
	var log io.Reader
	if kernel, err := openKernelLog(o.At("/dev/kmsg")); err == nil {
		defer kernel.close()
		log = kernel
	} else if kept := journal(ctx, o); kept != "" {
		log = strings.NewReader(kept)
	} else {
		return nil, nil, machine.Reason(err)
	}
	up, _, _ := strings.Cut(machine.Line(o.At("/proc/uptime")), " ")
	uptime, err := strconv.ParseFloat(up, 64)
	if err != nil {
		return nil, nil, "/proc/uptime cannot be read, so the age of its lines is unknown"
	}
	xids, sxids = []facts.Xid{}, []facts.Xid{}
	last := func(kept []facts.Xid, xid facts.Xid) []facts.Xid {
		return append(kept[max(0, len(kept)-xidMost+1):], xid)
	}
	records := bufio.NewReaderSize(log, 2*kernelRecord)
	for ctx.Err() == nil {
		record, err := records.ReadString('\n')
		_, text, _ := strings.Cut(record, ";")
		switch {
		case strings.HasPrefix(text, moduleLoaded):
			xids, sxids = xids[:0], sxids[:0]
		case strings.HasPrefix(text, "NVRM: Xid "):
			if xid, ok := parseXid(record, xidLine, uptime); ok {
				xids = last(xids, xid)
			}
		case strings.HasPrefix(text, "nvidia-nvswitch"):
			if sxid, ok := parseXid(record, sxidLine, uptime); ok {
				sxids = last(sxids, sxid)
			}
		}
		if err != nil {
			break
		}
	}
	return xids, sxids, ""
}

// journal returns the driver's lines since boot from systemd's journal, in the format of /dev/kmsg.
// The groups adm and systemd-journal may read the journal even if only root may read the kernel's
// log.
//
// journal returns "" if the journal does not reach back to the loading of the module. For users
// outside these groups, the journal looks empty.
//
// Source: systemd 252, journalctl(1), short-monotonic: "[    5.123456] kernel: NVRM: …".
func journal(ctx context.Context, o machine.Options) string {
	program, err := exec.LookPath("journalctl")
	if err != nil || !machine.Exists(o.At("/run/systemd/journal")) {
		return ""
	}
	lines, _, err := hostsys.Child{
		Path: program, Args: []string{"-k", "-b", "-q", "--no-pager", "--no-hostname", "-o", "short-monotonic", "-g", "NVRM: (Xid|loading)|nvidia-nvswitch"}, Limit: fabricLimit,
	}.Run(ctx)
	if err != nil || !strings.Contains(lines, moduleLoaded) {
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

// moduleLoaded is the start of the message that the module writes when it is loaded. Loading the
// module sets up every GPU again.
//
// Source: NVIDIA/open-gpu-kernel-modules 570, nvidia/nv.c, nvidia_init_module.
const moduleLoaded = "NVRM: loading NVIDIA UNIX"

// xidLine matches a report in every format that drivers have used. The address is the GPU's address
// and, with MIG, also names a part of the GPU. Before driver 390, the address had no "PCI:" prefix.
//
//	NVRM: Xid (PCI:0000:4e:00): 79, pid=2131, name=python, GPU has fallen off the bus.
//	NVRM: Xid (PCI:0000:41:00 GPU-I:05): 43, pid=977, Ch 00000010
var xidLine = lazyregexp.New(`^NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{1,32})[^)]*\): (\d{1,6})(?:, ?(.*))?$`)

// sxidLine matches a report of an NVSwitch. It has the severity after the code.
//
//	nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
//
// Source: NVIDIA, Fabric Manager User Guide, r550, appendix D; NVIDIA/open-gpu-kernel-modules 570,
// nvswitch/kernel/inc/error_nvswitch.h.
var sxidLine = lazyregexp.New(`^nvidia-nvswitch\d{1,4}: SXid \((?:PCI:)?([0-9A-Fa-f:.]{1,32})\): (\d{1,6})(?:, ?(.*))?$`)

// parseXid parses a record of /dev/kmsg, such as "4,1234,98765432,-;NVRM: Xid (…". The third number
// is microseconds since boot (Linux, Documentation/ABI/testing/dev-kmsg).
func parseXid(record string, line *lazyregexp.Regexp, uptime float64) (facts.Xid, bool) {
	head, text, _ := strings.Cut(strings.TrimRight(record, "\n"), ";")
	match := line.FindStringSubmatch(text)
	fields := strings.Split(head, ",")
	if match == nil || len(fields) < 3 {
		return facts.Xid{}, false
	}
	since, err := strconv.ParseUint(fields[2], 10, 63)
	if err != nil {
		return facts.Xid{}, false
	}
	code, _ := strconv.Atoi(match[2]) // no error: the text has at most six digits
	return facts.Xid{Code: code, Address: strings.ToLower(match[1]), Age: max(0, uptime-float64(since)/1e6), Text: machine.Clipped(match[3])}, true
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
