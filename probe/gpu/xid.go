// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"context"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// xidMost is the maximum number of errors to keep. The newest are kept.
const xidMost = 100

// readXids returns the errors of GPUs and NVSwitches in the kernel log, newest last. It returns
// those that NVIDIA's driver has written since it was loaded. If the log cannot be read, it returns
// nil and the reason.
func readXids(ctx context.Context, o machine.Options) (xids, sxids []facts.Xid, unread string) {
	xids, sxids = []facts.Xid{}, []facts.Xid{}
	last := func(kept []facts.Xid, xid facts.Xid) []facts.Xid {
		return append(kept[max(0, len(kept)-xidMost+1):], xid)
	}
	unread = machine.KernelLog(ctx, o, moduleLoaded, "NVRM: (Xid|loading)|nvidia-nvswitch", func(age float64, message string) {
		switch {
		case strings.HasPrefix(message, moduleLoaded):
			xids, sxids = xids[:0], sxids[:0]
		case strings.HasPrefix(message, "NVRM: Xid "):
			if xid, ok := parseXid(message, xidLine, age); ok {
				xids = last(xids, xid)
			}
		case strings.HasPrefix(message, "nvidia-nvswitch"):
			if sxid, ok := parseXid(message, sxidLine, age); ok {
				sxids = last(sxids, sxid)
			}
		}
	})
	if unread != "" {
		return nil, nil, unread
	}
	return xids, sxids, ""
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

// parseXid parses a message of the driver, whose age is in seconds.
func parseXid(message string, line *lazyregexp.Regexp, age float64) (facts.Xid, bool) {
	match := line.FindStringSubmatch(message)
	if match == nil {
		return facts.Xid{}, false
	}
	code, _ := strconv.Atoi(match[2]) // no error: the text has at most six digits
	return facts.Xid{Code: code, Address: strings.ToLower(match[1]), Age: age, Text: machine.Clipped(match[3])}, true
}
