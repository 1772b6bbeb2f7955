// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"preflight/remote"
)

// verifier checks a host's key as check_host_key of OpenSSH's sshconnect.c does. It never writes a
// known_hosts file.
type verifier struct {
	target   *target
	known    []knownKey // known_hosts lines for the host
	portless []knownKey // known_hosts lines for the host without its port; used if known is empty
	problems []error    // known_hosts files that could not be read
	notes    []string   // notes on what ssh would do with a key that we accept
}

func (c *Carrier) verifier(t *target) *verifier {
	files := slices.Concat(t.userKnown, t.globalKnown)
	v := &verifier{target: t}
	v.known, v.problems = c.hostKeys.lookup(files, t.keyName)
	if !t.aliased && t.port != 22 {
		v.portless, _ = c.hostKeys.lookup(files, t.host)
	}
	return v
}

// algorithms returns the order in which host keys are requested. Keys that we could verify come
// first, so that a host does not show a key that we do not know. It works like order_hostkeyalgs of
// OpenSSH's sshconnect2.c.
func (v *verifier) algorithms() []string {
	all := v.target.hostKeyAlgorithms
	if !v.target.orderByKnown || v.knows(ssh.KeyAlgoED25519, "") && plainAlgorithm(all[0]) == ssh.KeyAlgoED25519 {
		return all
	}
	var first, last []string
	for _, algorithm := range all {
		marker := ""
		if strings.Contains(algorithm, "-cert-") {
			marker = markerAuthority
		}
		if v.knows(keyFormat(plainAlgorithm(algorithm)), marker) {
			first = append(first, algorithm)
		} else {
			last = append(last, algorithm)
		}
	}
	return append(first, last...)
}

// knows reports whether a key of this format is known. For a certificate authority any format
// counts, because it may sign keys of every kind.
func (v *verifier) knows(format, marker string) bool {
	return slices.ContainsFunc(v.known, func(k knownKey) bool {
		return k.marker == marker && (marker == markerAuthority || k.key.Type() == format)
	})
}

// plainAlgorithm returns the algorithm on which a certificate algorithm is based.
func plainAlgorithm(algorithm string) string {
	if base, ok := strings.CutSuffix(algorithm, "-cert-v01@openssh.com"); ok {
		if strings.HasPrefix(base, "sk-") {
			return base + "@openssh.com"
		}
		return base
	}
	return algorithm
}

// keyFormat returns the key format for a signature algorithm.
func keyFormat(algorithm string) string {
	if algorithm == ssh.KeyAlgoRSASHA256 || algorithm == ssh.KeyAlgoRSASHA512 {
		return ssh.KeyAlgoRSA
	}
	return algorithm
}

// check returns nil if the host has the right key, or if the configuration disables the check.
func (v *verifier) check(server net.Addr, shown ssh.PublicKey) *remote.Error {
	if tcp, ok := server.(*net.TCPAddr); ok && v.target.trustLocalhost && !v.target.aliased && tcp.IP.IsLoopback() {
		return nil
	}
	if revoked, ok := v.revoked(shown); ok {
		return v.refuse(remote.HostKeyRevoked, shown, revoked, "the key is marked @revoked")
	}
	if cert, ok := shown.(*ssh.Certificate); ok {
		if err := v.certificate(cert); err == nil {
			return nil
		} else if !errors.Is(err, errNoAuthority) {
			v.notes = append(v.notes, fmt.Sprintf("the host certificate of %s is not valid: %v. ssh and preflight fall back to the plain key", v.target.host, err))
		}
		shown = cert.Key
	}
	return v.checkPlain(shown)
}

// checkPlain checks a key that is not a certificate.
func (v *verifier) checkPlain(shown ssh.PublicKey) *remote.Error {
	same := func(k knownKey) bool { return k.marker == "" && equalKeys(k.key, shown) }
	if slices.ContainsFunc(v.known, same) || len(v.plainKnown()) == 0 && slices.ContainsFunc(v.portless, same) {
		return nil
	}
	known := v.plainKnown()
	if len(known) == 0 {
		return v.refuse(remote.HostKeyUnknown, shown, knownKey{}, "no key is known for this host")
	}
	for _, k := range known {
		if k.key.Type() == shown.Type() {
			return v.refuse(remote.HostKeyChanged, shown, k, "the key differs from the one known")
		}
	}
	return v.refuse(remote.HostKeyOtherType, shown, known[0], "known_hosts has only a key of another type for this host")
}

func (v *verifier) plainKnown() []knownKey {
	return slices.DeleteFunc(slices.Clone(v.known), func(k knownKey) bool { return k.marker != "" })
}

// refuse returns the error for a key that was not accepted, or nil if ssh would continue. ssh stops
// for any key but a new one, unless StrictHostKeyChecking is no.
func (v *verifier) refuse(cause remote.Cause, shown ssh.PublicKey, known knownKey, what string) *remote.Error {
	t := v.target
	if short := remote.Short(remote.StageHostKey, errors.Join(v.problems...)); short != nil {
		return short
	}
	if t.strict == "no" {
		v.notes = append(v.notes, fmt.Sprintf("%s: %s. ssh and preflight continue because StrictHostKeyChecking is no", t.keyName, what))
		return nil
	}
	if t.strict == "accept-new" && cause == remote.HostKeyUnknown {
		v.notes = append(v.notes, fmt.Sprintf("%s: %s. ssh would write it to known_hosts; preflight accepts it and writes nothing", t.keyName, what))
		return nil
	}
	detail := map[string]string{
		"name":        t.keyName,
		"host":        t.host,
		"port":        strconv.Itoa(t.port),
		"file":        "",
		"type":        shown.Type(),
		"fingerprint": ssh.FingerprintSHA256(shown),
		"strict":      t.strict,
	}
	if len(t.userKnown) > 0 {
		detail["file"] = t.userKnown[0]
	}
	if known.key != nil {
		detail["file"] = known.file
		detail["line"] = strconv.Itoa(known.line)
		detail["known"] = known.key.Type()
		detail["known_fingerprint"] = ssh.FingerprintSHA256(known.key)
		what = fmt.Sprintf("%s (%s:%d: %s %s)", what, known.file, known.line, known.key.Type(), ssh.FingerprintSHA256(known.key))
	}
	if at, ok := errors.AsType[*fs.PathError](errors.Join(v.problems...)); ok && cause == remote.HostKeyUnknown {
		cause, detail["file"], detail["reason"] = remote.HostsUnreadable, at.Path, reason(at)
	}
	for _, problem := range v.problems {
		what += fmt.Sprintf("; a known_hosts file could not be read: %v", problem)
	}
	return &remote.Error{Stage: remote.StageHostKey, Cause: cause, Detail: detail, Err: fmt.Errorf(
		"%s shows %s %s: %s; ssh without a terminal ends with \"Host key verification failed.\"",
		t.keyName, shown.Type(), ssh.FingerprintSHA256(shown), what)}
}

// revoked returns the @revoked line for the key. For a certificate, it also returns a line for the
// key inside or for the authority that signed it.
func (v *verifier) revoked(shown ssh.PublicKey) (knownKey, bool) {
	keys := []ssh.PublicKey{shown}
	if cert, ok := shown.(*ssh.Certificate); ok {
		keys = []ssh.PublicKey{cert.Key, cert.SignatureKey}
	}
	for _, line := range slices.Concat(v.known, v.portless) {
		if line.marker == markerRevoked && slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return equalKeys(k, line.key) }) {
			return line, true
		}
	}
	return knownKey{}, false
}

var errNoAuthority = errors.New("no @cert-authority line in known_hosts names its signer")

// certificate checks a host certificate: its signer, its dates and its host.
func (v *verifier) certificate(cert *ssh.Certificate) error {
	signedBy := func(k knownKey) bool { return k.marker == markerAuthority && equalKeys(k.key, cert.SignatureKey) }
	if !slices.ContainsFunc(v.known, signedBy) && !slices.ContainsFunc(v.portless, signedBy) {
		return errNoAuthority
	}
	if cert.CertType != ssh.HostCert {
		return errors.New("it is not a host certificate")
	}
	name := v.target.host
	if v.target.aliased {
		name = v.target.keyName
	}
	// OpenSSH treats the principals of a host certificate as patterns, but x/crypto treats them as
	// names. The principal that matches therefore replaces the host name.
	for _, principal := range cert.ValidPrincipals {
		if matchPattern(name, principal) {
			name = principal
			break
		}
	}
	return (&ssh.CertChecker{}).CheckCert(name, cert)
}

func equalKeys(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

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
