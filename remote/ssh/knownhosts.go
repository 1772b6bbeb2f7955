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

// The data base is our own because x/crypto's knownhosts, and skeema's on top
// of it, refuses a whole file for one bad line, ignores the host of a @revoked
// line and does not look a host up without its port: ssh does neither.

// Markers of known_hosts lines, as ssh.ParseKnownHosts gives them.
const (
	markerAuthority = "cert-authority"
	markerRevoked   = "revoked"
)

// knownKey is one line of a known_hosts file that speaks of some host.
type knownKey struct {
	key    ssh.PublicKey
	marker string // "", cert-authority, revoked
	file   string
	line   int
}

// knownLine is a line whose host is not simply written out.
type knownLine struct {
	knownKey
	patterns   []string // wildcards and negations; nil for a hashed name
	salt, hash []byte
}

// knownFile is a parsed known_hosts file.
type knownFile struct {
	byName  map[string][]knownKey
	others  []knownLine
	problem error // why it could not be read; nil also when there is none
}

// knownHosts keeps every known_hosts file that some host asked for.
type knownHosts struct{ files cache[*knownFile] }

// lookup gives every line of the files that speaks of name, in file order, and
// the files that could not be read. The name is as portedName spells it.
func (k *knownHosts) lookup(paths []string, name string) (keys []knownKey, problems []error) {
	for _, path := range paths {
		file := k.files.get(path, readKnownHosts)
		if file.problem != nil {
			problems = append(problems, file.problem)
		}
		first := len(keys)
		keys = append(keys, file.byName[name]...)
		for i := range file.others {
			if file.others[i].matches(name) {
				keys = append(keys, file.others[i].knownKey)
			}
		}
		slices.SortStableFunc(keys[first:], func(a, b knownKey) int { return a.line - b.line })
	}
	return keys, problems
}

func (l *knownLine) matches(name string) bool {
	if l.patterns != nil {
		return matchPatterns(name, l.patterns)
	}
	return hmac.Equal(hashName(name, l.salt), l.hash)
}

// hashName is host_hash of OpenSSH's hostfile.c.
func hashName(name string, salt []byte) []byte {
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return mac.Sum(nil)
}

// readKnownHosts reads a known_hosts file. Lines it cannot read are passed
// over, as hostkeys_foreach (hostfile.c) does.
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

// add files a line under its names where it writes them out.
func (f *knownFile) add(k knownKey, hosts []string) {
	if !slices.Contains([]string{"", markerAuthority, markerRevoked}, k.marker) {
		return
	}
	if len(hosts) == 1 && strings.HasPrefix(hosts[0], "|") {
		if salt, hash, ok := splitHash(hosts[0]); ok {
			f.others = append(f.others, knownLine{knownKey: k, salt: salt, hash: hash})
		}
		return
	}
	for i, host := range hosts {
		hosts[i] = strings.ToLower(host)
	}
	if strings.ContainsAny(strings.Join(hosts, ""), "*?!") {
		f.others = append(f.others, knownLine{knownKey: k, patterns: hosts})
		return
	}
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		f.byName[host] = append(f.byName[host], k)
	}
}

// splitHash takes |1|salt|hash apart.
func splitHash(s string) (salt, hash []byte, ok bool) {
	parts := strings.Split(s, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return nil, nil, false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return nil, nil, false
	}
	hash, err = base64.StdEncoding.DecodeString(parts[3])
	return salt, hash, err == nil
}
