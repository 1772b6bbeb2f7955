// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
)

// mostAncestors limits the walk from the agent to the login that started it.
const mostAncestors = 16

// sessionEnd searches a process and its ancestors for a timeout(1), up to the server of the login.
// sshd runs a forced command, and every start-up file, between itself and the agent. Ancestors that
// this user may not see end the search, because they belong to another user and so to no login of
// this one. Without a timeout, it asks sshd for its own.
func sessionEnd(ctx context.Context, o machine.Options, pid int) *facts.SessionEnd {
	for range mostAncestors {
		if pid <= 1 {
			return nil
		}
		dir := o.At("/proc/" + strconv.Itoa(pid))
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			return nil
		}
		words := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
		if strings.HasPrefix(words[0], "sshd") { // sshd: root@notty
			return channelEnd(ctx, o)
		}
		if end := timeoutOf(words); end != nil {
			return end
		}
		status, _ := os.ReadFile(filepath.Join(dir, "status"))
		parent, _ := machine.After(string(status), "PPid:")
		if pid, err = strconv.Atoi(parent); err != nil {
			return nil
		}
	}
	return nil
}

// channelEnd asks sshd for its ChannelTimeout, which closes a session that is silent for that time. It
// starts sshd only if a file of its configuration has the word. Only root may ask.
func channelEnd(ctx context.Context, o machine.Options) *facts.SessionEnd {
	files, _ := filepath.Glob(o.At("/etc/ssh/sshd_config.d/*.conf"))
	isSet := slices.ContainsFunc(append(files, o.At("/etc/ssh/sshd_config")), func(path string) bool {
		content, err := os.ReadFile(path)
		return err == nil && bytes.Contains(bytes.ToLower(content), []byte("channeltimeout"))
	})
	if !isSet {
		return nil
	}
	settings, _, err := hostsys.Child{Path: o.At("/usr/sbin/sshd"), Args: []string{"-T"}, Limit: 2 * time.Second}.Run(ctx)
	if err != nil {
		return nil
	}
	return silenceOf(settings)
}

// silenceOf returns the end that the output of sshd -T sets to sessions that are silent.
//
// Source: OpenSSH 9.2, servconf.c, parse_timeout, and misc.c, convtime; channel.c, lookup_timeout,
// where the last matching pattern wins.
func silenceOf(settings string) (end *facts.SessionEnd) {
	value, _ := machine.After(settings, "channeltimeout ")
	for _, word := range strings.Fields(value) {
		pattern, duration, _ := strings.Cut(word, "=")
		seconds, err := strconv.ParseFloat(strings.TrimRight(duration, "smhdw"), 64)
		matches, _ := filepath.Match(pattern, "session:command")
		if err != nil || !matches && pattern != "session" || duration == "" {
			continue
		}
		factor := map[byte]float64{'m': 60, 'h': 3600, 'd': 86400, 'w': 7 * 86400}[duration[len(duration)-1]]
		if end = nil; seconds > 0 {
			end = &facts.SessionEnd{By: "ChannelTimeout " + word, Seconds: seconds * max(factor, 1), Silent: true}
		}
	}
	return end
}

// timeoutOf returns the end that a command line of timeout(1) sets, nil for any other command and
// for a timeout without an end.
//
// Source: coreutils 9.1, src/timeout.c; busybox 1.35, coreutils/timeout.c, whose old form has the
// seconds after -t.
func timeoutOf(words []string) *facts.SessionEnd {
	if filepath.Base(words[0]) == "busybox" {
		words = words[1:]
	}
	if len(words) < 2 || !slices.Contains([]string{"timeout", "gtimeout"}, filepath.Base(words[0])) {
		return nil
	}
	for i := 1; i < len(words); i++ {
		switch word := words[i]; {
		case word == "-k", word == "-s", word == "--kill-after", word == "--signal":
			i++
		case strings.HasPrefix(word, "-") && word != "-t":
		default:
			if word == "-t" && i+1 < len(words) {
				word = words[i+1]
			}
			seconds, err := strconv.ParseFloat(strings.TrimRight(word, "smhd"), 64)
			if err != nil || seconds <= 0 {
				return nil
			}
			factor := map[byte]float64{'m': 60, 'h': 3600, 'd': 86400}[word[len(word)-1]]
			return &facts.SessionEnd{By: fmt.Sprintf("timeout %s", word), Seconds: seconds * max(factor, 1)}
		}
	}
	return nil
}
