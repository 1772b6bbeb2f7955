// SPDX-License-Identifier: Apache-2.0

package network

import (
	"testing"
)

// TestNearestName checks misspellings that people have made. It also checks names of plugins,
// containers and builds that only look like misspellings.
func TestNearestName(t *testing.T) {
	for name, want := range map[string]string{
		"NCCL_SOCKET_IFNAMES":               "NCCL_SOCKET_IFNAME",
		"NCCL_SOCKET_IF_NAME":               "NCCL_SOCKET_IFNAME",
		"NCCL_IB_GID_IDX":                   "NCCL_IB_GID_INDEX",
		"NCCL_NSOCKS_PER_THREAD":            "NCCL_NSOCKS_PERTHREAD",
		"NCCL_IB_HCAS":                      "NCCL_IB_HCA",
		"NCCL_DEBUG_SUBSYSTEM":              "",
		"GLOO_SOCKET_IFNAMES":               "GLOO_SOCKET_IFNAME",
		"TORCH_NCCL_HEARTBEAT_TIMEOUT_SECS": "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
		"NCCL_VERSION":                      "",
		"NCCL_HOME":                         "",
		"NCCL_ROOT":                         "",
		"NCCL_IBEXT_DISABLE":                "",
		"NCCL_SHARP_DISABLE":                "",
		"NCCL_FASTRAK_NUM_FLOWS":            "",
		"TORCH_HOME":                        "",
		"UCX_TLS":                           "",
	} {
		if got := nearestName(name); got != want {
			t.Errorf("nearestName(%s) = %q, want %q", name, got, want)
		}
	}
}

// TestTablesAgree checks that no name is in two tables that contradict each other, and that no name
// that a library reads is listed as dead.
func TestTablesAgree(t *testing.T) {
	for _, table := range []nameSet{tables().NCCLNumbers, tables().NCCLTexts, tables().Torch, tables().Renamed, tables().MustAgree, tables().MayDiffer} {
		if len(table) == 0 {
			t.Error("a table has no names")
		}
	}
	for name := range tables().NCCLNumbers {
		if tables().NCCLTexts[name] {
			t.Errorf("%s is both a number and a text", name)
		}
	}
	for name := range tables().MustAgree {
		if tables().MayDiffer[name] {
			t.Errorf("%s must agree and may differ", name)
		}
		if prefixOf(name) == "NCCL" && !tables().NCCLNumbers[name] && !tables().NCCLTexts[name] {
			t.Errorf("%s must agree, and NCCL does not read it", name)
		}
	}
	for name := range tables().Dead {
		if tables().NCCLNumbers[name] || tables().NCCLTexts[name] || tables().Torch[name] {
			t.Errorf("%s is called dead and is read", name)
		}
	}
	for name := range tables().Renamed {
		if !tables().Torch["TORCH_"+name] {
			t.Errorf("%s was renamed to a name that torch does not read", name)
		}
	}
}
