// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
)

// sshSettings holds the settings of the user's ssh for one host.
type sshSettings struct {
	values map[string]string // the keyword in lower case → the value; nil if ssh did not answer
	files  []string          // the configuration files that ssh read
}

// askSSHLimit is the time limit for an answer of `ssh -G`, which connects to nothing.
const askSSHLimit = 2 * time.Second

// askSSH makes ssh print its settings for the host in args. With -v it also prints which files it
// reads, among them those that other files include.
func askSSH(ctx context.Context, ssh string, args ...string) (s sshSettings) {
	child := inEnglish(ssh, append([]string{"-v", "-G"}, args...)...)
	child.Limit = askSSHLimit
	answer, said, err := child.Run(ctx)
	if err != nil {
		return s
	}
	s.values = map[string]string{}
	for line := range strings.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.values[name] = value
	}
	for line := range strings.Lines(said) {
		if _, file, is := strings.Cut(line, ": Reading configuration data "); is {
			s.files = append(s.files, strings.TrimSpace(file))
		}
	}
	return s
}

// areShared reports whether keywords certainly have the same values for every host. They have if no
// file sets one of them, or if no part of a file is for certain hosts only. An Include may have the
// host's name in its path (OpenSSH 10).
func (s sshSettings) areShared(keywords ...string) bool {
	areSet, haveParts := false, s.values == nil
	for _, file := range s.files {
		content, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		for line := range strings.Lines(strings.ToLower(string(content))) {
			words := strings.FieldsFunc(line, func(r rune) bool { return unicode.IsSpace(r) || r == '=' || r == '"' })
			switch {
			case len(words) == 0:
			case words[0] == "host", words[0] == "match":
				everyHost := []string{"*", "all", "final all", "canonical all"}
				haveParts = haveParts || !slices.Contains(everyHost, strings.Join(words[1:], " "))
			case words[0] == "include" && strings.Contains(line, "%"):
				return false
			default:
				areSet = areSet || slices.Contains(keywords, words[0])
			}
		}
	}
	return s.values != nil && !(areSet && haveParts)
}

// unwritten returns options with which ssh checks a host key as its settings say, but stores no
// key. Without these options, ssh writes to the first of the user's files.
func (s sshSettings) unwritten() []string {
	switch s.values["stricthostkeychecking"] {
	case "false", "off", "accept-new":
		return []string{"-o", "UserKnownHostsFile=" + os.DevNull + " " + s.values["userknownhostsfile"]}
	}
	return nil // without a terminal, ssh refuses unknown keys
}

// quickExchange returns options with which ssh offers the same key exchanges, but X25519 alone
// before its hybrid with sntrup761, which contains X25519. For the hybrid, a client computes about
// 80 ms and a server 8 ms longer. Any other order is kept: OpenSSH 10 prefers a hybrid that costs
// little, and a user may have chosen another order.
func (s sshSettings) quickExchange() []string {
	const x25519, hybrid = "curve25519-sha256", "sntrup761x25519-sha512"
	offered := strings.Split(s.values["kexalgorithms"], ",")
	if at := slices.Index(offered, x25519); at > 0 && strings.HasPrefix(offered[0], hybrid) {
		return []string{"-o", "KexAlgorithms=" + strings.Join(append([]string{x25519}, slices.Delete(offered, at, at+1)...), ",")}
	}
	return nil
}
