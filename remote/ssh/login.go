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
