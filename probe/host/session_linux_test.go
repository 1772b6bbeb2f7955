// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestTimeoutOf(t *testing.T) {
	for command, want := range map[string]*facts.SessionEnd{
		"timeout 8 sh -c true":                     {By: "timeout 8", Seconds: 8},
		"/usr/bin/timeout -k 5 --signal=INT 2h sh": {By: "timeout 2h", Seconds: 7200},
		"timeout --foreground -s KILL 0.5m sh -c":  {By: "timeout 0.5m", Seconds: 30},
		"timeout --kill-after 5 1d sh":             {By: "timeout 1d", Seconds: 86400},
		"busybox timeout 9 sh":                     {By: "timeout 9", Seconds: 9},
		"timeout -t 7 sh":                          {By: "timeout 7", Seconds: 7},
		"timeout 0 sh":                             nil,
		"timeout --version":                        nil,
		"bash -c timeout 8 sh":                     nil,
		"timeout":                                  nil,
		"busybox":                                  nil,
	} {
		if diff := cmp.Diff(want, timeoutOf(strings.Fields(command))); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", command, diff)
		}
	}
}

// TestSilence reads what sshd -T prints about sessions that are silent.
func TestSilence(t *testing.T) {
	for settings, want := range map[string]*facts.SessionEnd{
		"port 22\nchanneltimeout none\n":                               nil,
		"channeltimeout *=3s\nport 22\n":                               {By: "ChannelTimeout *=3s", Seconds: 3, Silent: true},
		"channeltimeout agent-connection=5m session:command=2m\n":      {By: "ChannelTimeout session:command=2m", Seconds: 120, Silent: true},
		"channeltimeout session*=1h session:shell=5 direct-tcpip=10\n": {By: "ChannelTimeout session*=1h", Seconds: 3600, Silent: true},
		"channeltimeout *=3s session:command=0\n":                      nil,
		"": nil,
	} {
		if diff := cmp.Diff(want, silenceOf(settings)); diff != "" {
			t.Errorf("%q: (-want +got):\n%s", settings, diff)
		}
	}
}

// TestSessionEnd walks from the agent's parent up to sshd, and not further: what started sshd ends
// no single login.
func TestSessionEnd(t *testing.T) {
	process := func(files map[string]string, pid, parent, words string) {
		files["proc/"+pid+"/cmdline"] = strings.ReplaceAll(words, " ", "\x00") + "\x00"
		files["proc/"+pid+"/status"] = "Name:\tx\nPPid:\t" + parent + "\n"
	}
	files := map[string]string{}
	process(files, "40", "30", "sh -c exec")
	process(files, "30", "20", "timeout 8 sh -c exec")
	process(files, "20", "10", "sshd: train@notty")
	process(files, "10", "1", "timeout 60 sshd")
	process(files, "41", "20", "bash -c exec")
	process(files, "42", "99", "bash -c exec")
	o := probetest.Write(t, machine.Options{}, files)
	for pid, want := range map[int]*facts.SessionEnd{40: {By: "timeout 8", Seconds: 8}, 41: nil, 42: nil, 1: nil, 99: nil} {
		if diff := cmp.Diff(want, sessionEnd(t.Context(), o, pid)); diff != "" {
			t.Errorf("from process %d: (-want +got):\n%s", pid, diff)
		}
	}
}
