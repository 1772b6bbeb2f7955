// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
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
