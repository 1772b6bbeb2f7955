// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// login is one attempt to log in. It offers one key at a time, so that the result for each key is
// known. It asks the user nothing.
type login struct {
	ctx    context.Context
	client *Carrier
	target *target

	prepared     bool
	untried      []*identity
	unknowable   []*identity // keys whose public half is unknown without the passphrase
	agentProblem error

	methods []string    // the methods in the server's latest answer
	partial []string    // the methods that have succeeded so far
	offered []*identity // in the order of the offers
	wanted  []*identity // keys that the server would accept, but that cannot sign
	signed  *identity   // the key whose signature the server requested and got
	signErr error       // why the last signature failed
	banner  strings.Builder
}

// maxBanner is the maximum number of bytes of a server's login banner that are kept.
const maxBanner = 4 << 10

func (l *login) keepBanner(message string) error {
	if room := maxBanner - l.banner.Len(); room > 0 {
		l.banner.WriteString(message[:min(room, len(message))])
	}
	return nil
}

// errGivenUp ends a login when there is no key or method left to try.
var errGivenUp = errors.New("nothing left to log in with")

// next returns the next method to try. The library calls it after a failure or a partial success.
func (l *login) next(state *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	l.methods = state.AllowedMethods
	l.partial = state.PartialSuccessMethods
	if !l.target.publicKey || !slices.Contains(l.methods, "publickey") {
		return nil, errGivenUp
	}
	if !l.prepared {
		l.prepare()
	}
	if len(l.untried) == 0 {
		return nil, errGivenUp
	}
	id := l.untried[0]
	l.untried = l.untried[1:]
	l.offered = append(l.offered, id)
	return ssh.PublicKeys(&signer{login: l, identity: id, algorithms: l.signatures(id)}), nil
}

// agentSilent reports whether the login was waiting for an agent.
func (l *login) agentSilent() bool {
	return errors.Is(l.signErr, errAgentSilent) || errors.Is(l.agentProblem, errAgentSilent)
}

// prepare lists the keys, without keys that must not or cannot be offered.
func (l *login) prepare() {
	l.prepared = true
	var all []*identity
	all, l.agentProblem = l.client.identities(l.ctx, l.target)
	for _, id := range all {
		switch {
		case id.public == nil:
			l.unknowable = append(l.unknowable, id)
		case len(l.signatures(id)) > 0:
			l.untried = append(l.untried, id)
		}
	}
}

// signatures returns the signature algorithms that a key may use, best first.
func (l *login) signatures(id *identity) []string {
	format := plainAlgorithm(id.public.Type())
	return slices.DeleteFunc(slices.Clone(l.target.keyAlgorithms), func(algorithm string) bool {
		return keyFormat(algorithm) != format
	})
}

// signer is an identity in one login. The library asks it to sign only after the server said that
// it would accept the key.
type signer struct {
	*identity
	login      *login
	algorithms []string
}

func (s *signer) PublicKey() ssh.PublicKey { return s.public }

func (s *signer) Algorithms() []string { return s.algorithms }

func (s *signer) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return s.SignWithAlgorithm(rand, data, s.algorithms[0])
}

// SignWithAlgorithm returns when the login's context ends. An agent may wait for a touch, or
// forever, and closing the connection does not end that wait.
func (s *signer) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if s.identity.signer == nil {
		s.login.wanted = append(s.login.wanted, s.identity)
		return nil, s.problem
	}
	able, ok := s.identity.signer.(ssh.AlgorithmSigner)
	if !ok {
		return nil, errors.New("the key cannot choose its signature")
	}
	type result struct {
		signature *ssh.Signature
		err       error
	}
	done := make(chan result, 1)
	go func() {
		signature, err := able.SignWithAlgorithm(rand, data, algorithm)
		done <- result{signature, err}
	}()
	select {
	case r := <-done:
		s.login.signErr = r.err
		if r.err == nil {
			s.login.signed = s.identity
		}
		return r.signature, r.err
	case <-s.login.ctx.Done():
		s.login.signErr = errAgentSilent
		return nil, errAgentSilent
	}
}

// keyExchanges lists plain curve25519 before the post-quantum hybrid, because plain curve25519
// costs the launching machine only a fraction of the time. Nodes report nothing about themselves
// that an eavesdropper would want to decrypt decades later.
var keyExchanges = []string{
	ssh.KeyExchangeCurve25519,
	ssh.KeyExchangeMLKEM768X25519,
	ssh.KeyExchangeECDHP256,
	ssh.KeyExchangeECDHP384,
	ssh.KeyExchangeECDHP521,
	ssh.KeyExchangeDH14SHA256,
	ssh.KeyExchangeDH16SHA512,
	ssh.KeyExchangeDHGEXSHA256,
}

// hostKeyAlgorithms is the default order of OpenSSH 9.2 (KEX_DEFAULT_PK_ALG in myproposal.h),
// without the security key types, which no server has.
var hostKeyAlgorithms = []string{
	ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
	ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
}

// keyAlgorithms lists the signature algorithms that we offer for logins, best first.
var keyAlgorithms = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
	ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
}

// onlyOpenSSH lists key exchanges, ciphers and other algorithms that OpenSSH 9.2 to 10.0 offers by
// default and x/crypto does not support.
var onlyOpenSSH = []string{
	"sntrup761x25519-sha512@openssh.com", "sntrup761x25519-sha512", "diffie-hellman-group18-sha512",
	"umac-64-etm@openssh.com", "umac-128-etm@openssh.com", "hmac-sha1-etm@openssh.com",
	"umac-64@openssh.com", "umac-128@openssh.com",
	"sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com",
}

// algorithms sets the four lists of algorithms that are negotiated, and the list that limits the
// user's keys.
func (e *evaluation) algorithms(t *target) {
	able, unsafe := ssh.SupportedAlgorithms(), ssh.InsecureAlgorithms()
	choose := func(keyword string, defaults []string, able ...[]string) []string {
		all := slices.Concat(able...)
		chosen := chooseAlgorithms(e.first(keyword), defaults, all)
		if len(chosen) == 0 {
			e.note("%s allows only %s, which ssh supports and preflight does not: preflight offered its own list", keyword, e.first(keyword))
			return defaults
		}
		return chosen
	}
	t.kex = choose("kexalgorithms", keyExchanges, able.KeyExchanges, unsafe.KeyExchanges)
	t.ciphers = choose("ciphers", able.Ciphers, able.Ciphers, unsafe.Ciphers)
	t.macs = choose("macs", able.MACs, able.MACs, unsafe.MACs)
	t.hostKeyAlgorithms = choose("hostkeyalgorithms", hostKeyAlgorithms, hostKeyAlgorithms, unsafe.HostKeys)
	t.keyAlgorithms = choose("pubkeyacceptedalgorithms", keyAlgorithms, keyAlgorithms, unsafe.PublicKeyAuths)
	// In ssh_kex2 (sshconnect2.c), a list without + or - keeps its order.
	spec := e.first("hostkeyalgorithms")
	t.orderByKnown = spec == "" || strings.ContainsAny(spec[:1], "+-")
}

// chooseAlgorithms applies ssh_config's +, - and ^ to the defaults. Patterns match the algorithms
// in able, which are those that are supported.
func chooseAlgorithms(spec string, defaults, able []string) []string {
	if spec == "" {
		return defaults
	}
	list := strings.Split(strings.TrimLeft(spec, "+-^"), ",")
	var named []string
	for _, pattern := range list {
		for _, name := range able {
			if matchPattern(name, pattern) && !slices.Contains(named, name) {
				named = append(named, name)
			}
		}
	}
	without := func(list, unwanted []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(unwanted, name) })
	}
	switch spec[0] {
	case '+':
		return append(slices.Clone(defaults), without(named, defaults)...)
	case '-':
		return without(defaults, named)
	case '^':
		return append(named, without(defaults, named)...)
	}
	return named
}
