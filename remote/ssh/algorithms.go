// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

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
