// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// preflight has its own known_hosts database. x/crypto's knownhosts, and skeema's which is based on
// it, refuse a whole file for one bad line. They also ignore the host of a @revoked line and do not
// look up a host without its port. ssh does none of this.

// Markers of known_hosts lines, as ssh.ParseKnownHosts returns them.
const (
	markerAuthority = "cert-authority"
	markerRevoked   = "revoked"
)

// knownKey is one line of a known_hosts file that applies to some host.
type knownKey struct {
	key    ssh.PublicKey
	marker string // "", "cert-authority" or "revoked"
	file   string
	line   int
}

// knownPattern is a line whose host is not a plain name: it has wildcards and negations, or is
// hashed.
type knownPattern struct {
	knownKey
	matches func(name string) bool
}

// knownFile is a parsed known_hosts file.
type knownFile struct {
	byName  map[string][]knownKey
	others  []knownPattern
	problem error // why the file could not be read; nil if it does not exist
}

// knownHosts keeps every known_hosts file that was needed for a host.
type knownHosts struct{ files cache[string, *knownFile] }

// lookup returns every line of the files for a name, in file order, and the errors for files that
// could not be read. The name must have the form that portedName returns.
func (k *knownHosts) lookup(paths []string, name string) (keys []knownKey, problems []error) {
	for _, path := range paths {
		file := k.files.get(path, readKnownHosts)
		if file.problem != nil {
			problems = append(problems, file.problem)
		}
		first := len(keys)
		keys = append(keys, file.byName[name]...)
		for _, other := range file.others {
			if other.matches(name) {
				keys = append(keys, other.knownKey)
			}
		}
		slices.SortStableFunc(keys[first:], func(a, b knownKey) int { return a.line - b.line })
	}
	return keys, problems
}

// readKnownHosts reads a known_hosts file. It skips lines that it cannot parse, as hostkeys_foreach
// (hostfile.c) does.
func readKnownHosts(path string) *knownFile {
	file := &knownFile{byName: map[string][]knownKey{}}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file
	}
	if err != nil {
		file.problem = err
		return file
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		marker, hosts, key, _, _, err := ssh.ParseKnownHosts(lines.Bytes())
		if err == nil {
			file.add(knownKey{key: key, marker: marker, file: path, line: number}, hosts)
		}
	}
	file.problem = lines.Err()
	return file
}

// add stores a line under its host names. A line whose host is not a plain name becomes a pattern.
func (f *knownFile) add(k knownKey, hosts []string) {
	if !slices.Contains([]string{"", markerAuthority, markerRevoked}, k.marker) {
		return
	}
	if hash, hashed := strings.CutPrefix(hosts[0], "|"); hashed && len(hosts) == 1 {
		if matches := hashedName(hash); matches != nil {
			f.others = append(f.others, knownPattern{k, matches})
		}
		return
	}
	for i, host := range hosts {
		hosts[i] = strings.ToLower(host)
	}
	if strings.ContainsAny(strings.Join(hosts, ""), "*?!") {
		f.others = append(f.others, knownPattern{k, func(name string) bool { return matchPatterns(name, hosts) }})
		return
	}
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		f.byName[host] = append(f.byName[host], k)
	}
}

// hashedName returns a function that reports whether 1|salt|hash was made from a name, as host_hash
// of OpenSSH's hostfile.c makes it. It returns nil for invalid text.
func hashedName(text string) func(name string) bool {
	parts := strings.Split(text, "|")
	if len(parts) != 3 || parts[0] != "1" {
		return nil
	}
	salt, err := base64.StdEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	return func(name string) bool {
		mac := hmac.New(sha1.New, salt)
		mac.Write([]byte(name))
		return parts[2] == base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
}
