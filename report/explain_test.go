// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"testing"

	"preflight/explain"
	"preflight/testhosts/reporttest"
)

// wrecks returns one explanation of each kind.
func wrecks() map[string]explain.Report {
	full := explain.Evidence{File: "logs/w2.log", Line: 812, Node: "w2", Rank: "9", Time: "03-21 02:07:08.408271",
		Text: "misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-RwBgYl to 33030532 bytes, error: No space left on device (28)"}
	closed := explain.Evidence{File: "logs/w1.log", Line: 7, Node: "w1", Rank: "0", Text: "Net : Connection closed by remote peer \x1b]0;w2<41993>"}
	followed := []explain.Finding{
		{Cause: "peer-exited", Title: "another rank died first", Summary: "w2 closed a connection to w1", Nodes: []string{"w1"}, Count: 14, Evidence: []explain.Evidence{closed}},
		{Summary: "the launcher counts its dead", Count: 1, Evidence: []explain.Evidence{{File: "logs/w1.log", Line: 99, Text: "ChildFailedError"}}},
	}
	return map[string]explain.Report{
		"explain_cause": {
			ExitCode: 1, Files: 2, Lines: 18203,
			Causes: []explain.Finding{
				{Cause: "shm-too-small", Check: "shm-size", Title: "/dev/shm is too small", Summary: "NCCL wanted 32 MiB of /dev/shm on w2 for the proxy buffers of one rank (NCCL 2.26) and there was not as much left",
					Nodes: []string{"w2", "w3"}, Ranks: []string{"9"}, Count: 3, Evidence: []explain.Evidence{full},
					Fix: []string{"ssh w2 'df -h /dev/shm'", "docker run --shm-size=8g …   # or --ipc=host"}, Command: "preflight -H hostfile --only shm-size"},
				{Cause: "fd-limit", Title: "a process has too many files open", Summary: "a process has too many files open", Ranks: []string{"0", "4"}, Count: 1, Evidence: []explain.Evidence{closed}},
			},
			Consequences: followed,
			Noise:        []explain.Finding{{Summary: "IPv6 is off here, and IPv4 is used", Count: 4, Evidence: []explain.Evidence{{File: "logs/w1.log", Line: 2}}}},
			Timeline: []explain.Death{
				{Node: "w2", Rank: "9", Time: "03-21 02:07:08.408271", Cause: "shm-too-small", File: "logs/w2.log", Line: 812},
				{Node: "w1", Rank: "0", File: "logs/w1.log", Line: 7, Cause: "peer-exited"},
				{Rank: "4", File: "logs/w1.log", Line: 9},
			},
			Network: []explain.Network{
				{Node: "w1", NCCL: "2.26.2", Net: "Socket", Slow: []string{"sockets although mlx5_0 is there"}},
				{Node: "w2", NCCL: "2.26.2", Net: "Socket", Slow: []string{"sockets although mlx5_0 is there"}},
			},
		},
		"explain_program":  {ExitCode: 1, Files: 1, Lines: 40, Program: &explain.Finding{Summary: "KeyError: 'labels'", Ranks: []string{"3"}, Count: 1, Evidence: []explain.Evidence{{File: "train.log", Line: 12, Rank: "3", Text: "KeyError: 'labels'"}}}, Consequences: followed},
		"explain_launcher": {ExitCode: 1, Files: 1, Lines: 40, Program: &explain.Finding{Summary: "ValueError: Unsupported nproc_per_node value: two", Nodes: []string{"w2"}, Launcher: "torchrun", Count: 1, Evidence: []explain.Evidence{{File: "train.log", Line: 12, Node: "w2", Text: "ValueError: Unsupported nproc_per_node value: two"}}}},
		"explain_unknown":  {ExitCode: 2, Files: 1, Lines: 3, Consequences: followed[1:]},
		"explain_empty":    {ExitCode: 2, Files: 1},
		"explain_unread": {ExitCode: 2, Files: 3, Lines: 3, Unread: []explain.Unread{
			{File: "w1.log", Reason: "no such file or directory", Whole: true}, {File: "w2.log", Reason: "permission denied", Whole: true}, {File: "w3.log.gz", Reason: "unexpected EOF"},
		}},
		"explain_empty_one": {Files: 7, Lines: 3, Empty: []string{"w2.log", "w3.log", "w4.log", "w5.log", "w6.log", "w7.log"}},
		"explain_nothing":   {Files: 1, Lines: 3},
		"explain_silent":    {ExitCode: 2, Files: 1, Lines: 3},
	}
}

func TestExplanation(t *testing.T) {
	for name, r := range wrecks() {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := Explanation(&got, r, Style{}); err != nil {
				t.Fatal(err)
			}
			reporttest.Golden(t, name+".txt", got.Bytes())
			if bytes.ContainsRune(got.Bytes(), '\x1b') {
				t.Error("an escape sequence of a log got through")
			}
		})
	}
}

// TestCausesHaveTheirMessages checks that the page of a cause shows its log messages.
func TestCausesHaveTheirMessages(t *testing.T) {
	c, err := explain.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, cause := range c.Causes {
		if len(signaturesOf(c, cause.ID)) == 0 {
			t.Errorf("%s has none", cause.ID)
		}
	}
}
