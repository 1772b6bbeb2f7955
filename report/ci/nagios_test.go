// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"regexp"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/testhosts/reporttest"
)

// status matches a line as the Monitoring Plugins' guidelines require: text without a bar, then
// 'label'=value[UOM];warn;crit;min;max entries with a space between them.
var status = regexp.MustCompile(`^PREFLIGHT (OK|WARNING|CRITICAL|UNKNOWN) - [^|<>\n]+ \|( [a-z]+=[0-9.]+(s|%|B|c)?;[0-9]*;[0-9]*;[0-9]*(;[0-9]*)?)+\n$`)

func TestNagios(t *testing.T) {
	warned := reporttest.Failing()
	warned.Verdict, warned.ExitCode, warned.Findings = checks.Warn, 0, warned.Findings[4:]
	long := reporttest.Failing()
	for range 100 {
		long.Findings = append(long.Findings, checks.Finding{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w1", strings.Repeat("node", 400)}, Summary: "too small"})
	}
	all := reporttest.Cases()
	all["warned"], all["long"] = warned, long
	for name, want := range map[string]string{
		"failing": "PREFLIGHT CRITICAL - this launch will not work: 2 problems on w[2-4]: w4: nothing listens on port 22: connection refused (ssh-reach); w[2-3]: /dev/shm is too small for the ranks on this node, so NCCL cannot make its shared memory segments: 64 MiB (shm-size); w1: python: no answer within 5s (python-same, torch-same); all 4 nodes: a hostile \\x1b[31mvalue\\u202e and tab (env-sane)" +
			" | nodes=4;;;0 reached=3;;;0;4 passed=1;;;0;8 failed=2;;;0;8 warned=1;;;0;8 unknown=3;;;0;8 waived=0;;;0 time=0.420s;;;0\n",
		"passing":     "PREFLIGHT OK - ready to launch | nodes=1;;;0 ",
		"warned":      "PREFLIGHT WARNING - ready to launch, with 1 warning: all 4 nodes: a hostile \\x1b[31mvalue\\u202e and tab (env-sane) | ",
		"strict":      "PREFLIGHT CRITICAL - 1 warning, and --strict makes warnings fail: all 4 nodes: a hostile \\x1b[31mvalue\\u202e and tab (env-sane) | ",
		"interrupted": "PREFLIGHT UNKNOWN - cannot tell whether this launch will work (interrupted: this is what is known so far) | ",
		"long": "PREFLIGHT CRITICAL - this launch will not work: 102 problems on all 4 nodes: w4: nothing listens on port 22: connection refused (ssh-reach); w[2-3]: /dev/shm is too small for the ranks on this node, so NCCL cannot make its shared memory segments: 64 MiB (shm-size); " +
			strings.Repeat("w1,nodenodenodenodenodenodenodenodenodenodenodenodenodenode…: too small (shm-size); ", 4) + "and 98 more | ",
		"waiving": "PREFLIGHT CRITICAL - this launch will not work: 2 problems on w[2-4]; does not match the policy or the baseline: 1 problem on w3: w4: nothing listens on port 22: connection refused (ssh-reach); w[2-3]: /dev/shm is too small for the ranks on this node, so NCCL cannot make its shared memory segments: 64 MiB (shm-size); w3: net.mtu is not what the policy states (expectation); " +
			"w1: python: no answer within 5s (python-same, torch-same); all 4 nodes: a hostile \\x1b[31mvalue\\u202e and tab (env-sane) (2 waived) | nodes=4;;;0 reached=3;;;0;4 passed=1;;;0;9 failed=2;;;0;9 warned=1;;;0;9 unknown=3;;;0;9 waived=2;;;0 time=0.420s;;;0\n",
		"hostile": "PREFLIGHT CRITICAL - this launch will not work: 1 problem on ",
	} {
		got := reporttest.Rendered(t, Nagios, all[name])
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s\n got %q\nwant %q", name, got, want)
		}
		if name == "hostile" && !strings.Contains(got, `a\x7cb ]]\x3e --\x3e \x3c/details\x3e`) {
			t.Errorf("what the node said is not in %q", got)
		}
		if !status.MatchString(got) {
			t.Errorf("%s is no status line: %q", name, got)
		}
		if len(got) > 1024 {
			t.Errorf("%s has %d bytes, NRPE 2 hands on 1,024", name, len(got))
		}
	}
}
