// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultIdentities lists the keys that ssh tries if none is configured, in the order of
// fill_default_options (readconf.c, 9.2).
var defaultIdentities = []string{
	"id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_xmss", "id_dsa",
}

// hop is a host to log in to, with the settings that override the configuration: ssh's -l, -p and
// -J. The configuration applies where a value is zero.
type hop struct {
	name string
	user string
	port int
	jump string
}

// target is a hop with the configuration applied.
type target struct {
	original       string // the name as given, before the configuration
	host           string // the host to connect to: HostName in lower case
	user           string
	port           int
	network        string        // tcp, tcp4, tcp6
	bindAddress    string        // "" = any
	connectTimeout time.Duration // for TCP and the handshake together; 0 = none

	jump         *hop   // the jump host; nil = none
	proxyCommand string // with its tokens expanded; "" = none
	shell        string // the shell that runs proxyCommand

	keyName        string // HostKeyAlias, else host or [host]:port
	aliased        bool   // keyName is a HostKeyAlias
	strict         string // yes, ask, accept-new, no
	userKnown      []string
	globalKnown    []string
	trustLocalhost bool // NoHostAuthenticationForLocalhost

	publicKey      bool // public keys may be used
	identities     []string
	certificates   []string
	identitiesOnly bool   // use only those of the agent's keys that the configuration names
	agentSocket    string // "" = no agent
	agentChosen    bool   // agentSocket comes from the configuration

	kex, ciphers, macs []string
	hostKeyAlgorithms  []string
	orderByKnown       bool // known keys come first in hostKeyAlgorithms
	keyAlgorithms      []string

	gssapi, hostbased bool // ssh would also try these methods

	openSSH []string // what ssh would do differently
}

func (t *target) address() string { return net.JoinHostPort(t.host, strconv.Itoa(t.port)) }

// resolve applies the configuration to a hop. It returns an error if ssh would not even connect.
func (c *Carrier) resolve(h hop) (*target, error) {
	e := &evaluation{original: h.name, host: h.name, user: h.user, local: c.local, values: map[string]directive{}}
	e.evaluate(c.config.files)
	t := &target{original: h.name, user: e.remoteUser(), strict: "ask"}
	t.host = strings.ToLower(e.hostName())
	t.port = e.port(h.port)
	for _, unknown := range c.config.unknown {
		e.note("%s is not an OpenSSH option that preflight knows; an ssh that does not know it refuses to start", unknown)
	}
	expand := e.tokens(t)
	for _, step := range []func(*target, expander) error{e.connection, e.verification, e.login} {
		if err := step(t, expand); err != nil {
			return nil, err
		}
	}
	if err := e.proxies(t, h, expand); err != nil {
		return nil, err
	}
	if t.agentSocket == "" && !t.agentChosen {
		t.agentSocket = c.options.AgentSocket
	}
	e.algorithms(t)
	e.differences(t)
	if t.globalKnown == nil {
		etc := filepath.Dir(c.options.SystemConfig)
		t.globalKnown = []string{filepath.Join(etc, "ssh_known_hosts"), filepath.Join(etc, "ssh_known_hosts2")}
	}
	t.openSSH = e.notes
	return t, nil
}

// evaluation collects the values for one host. The first value of a keyword wins, except for
// keywords that accumulate.
type evaluation struct {
	original string
	host     string // the name that Host patterns match: the original name, and in the final pass the HostName
	user     string // overrides the user in the configuration
	local    account
	final    bool

	values       map[string]directive
	identities   []string
	certificates []string
	wantFinal    bool
	notes        []string
}

func (e *evaluation) evaluate(files []configFile) {
	pass := func() {
		for _, file := range files {
			e.apply(file, true)
		}
	}
	pass()
	if e.wantFinal {
		e.host = e.hostName()
		e.values["hostname"] = directive{args: []string{strings.ReplaceAll(e.host, "%", "%%")}}
		e.final = true
		pass()
	}
}

// apply processes one file. Whether a block applies is local to its file: the file starts with the
// state of the Include line and does not change that state.
func (e *evaluation) apply(file configFile, reached bool) {
	active := reached
	for _, d := range file {
		switch d.keyword {
		case "host":
			active = reached && matchPatterns(e.host, d.args)
		case "match":
			m := e.match(d.args)
			e.wantFinal = e.wantFinal || m.wantFinal
			if m.unjudged != "" && reached {
				e.note("preflight ignores the block at %s because it does not evaluate `Match %s`; ssh does and may use it", d.where(), m.unjudged)
			}
			active = reached && m.active
		case "include":
			for _, included := range d.included {
				e.apply(included, active)
			}
		default:
			if active {
				e.set(d)
			}
		}
	}
}

func (e *evaluation) set(d directive) {
	added := func(list []string) []string {
		if slices.Contains(list, d.args[0]) {
			return list
		}
		return append(list, d.args[0])
	}
	switch {
	case d.keyword == "identityfile":
		e.identities = added(e.identities)
	case d.keyword == "certificatefile":
		e.certificates = added(e.certificates)
	case e.isSet(d.keyword):
	// Of ProxyJump and ProxyCommand, the first that is set excludes the other.
	case d.keyword == "proxyjump" && e.isSet("proxycommand"), d.keyword == "proxycommand" && e.isSet("proxyjump"):
	default:
		e.values[d.keyword] = d
	}
}

func (e *evaluation) isSet(keyword string) bool {
	_, ok := e.values[keyword]
	return ok
}

// first returns the keyword's first argument, "" if it is not set.
func (e *evaluation) first(keyword string) string {
	if d, ok := e.values[keyword]; ok {
		return d.args[0]
	}
	return ""
}

// isOneOf reports whether the keyword's first argument is one of the words.
func (e *evaluation) isOneOf(keyword string, words ...string) bool {
	return slices.Contains(words, strings.ToLower(e.first(keyword)))
}

// note records a difference from ssh. It records each difference only once.
func (e *evaluation) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(e.notes, text) {
		e.notes = append(e.notes, text)
	}
}

// hostName returns the HostName as far as it is known. In HostName, %h stands for the original
// name.
func (e *evaluation) hostName() string {
	if name := e.first("hostname"); name != "" {
		return strings.NewReplacer("%%", "%", "%h", e.host).Replace(name)
	}
	return e.host
}

func (e *evaluation) remoteUser() string {
	return cmp.Or(e.user, e.first("user"), e.local.name)
}

func (e *evaluation) port(given int) int {
	if given != 0 {
		return given
	}
	if port, err := parsePort(e.first("port")); err == nil {
		return port
	}
	return 22
}

// expander replaces the %-tokens of ssh_config(5) in a value.
type expander func(value string) (string, error)

// noTokens is the expander for keywords whose values have no tokens.
func noTokens(value string) (string, error) { return value, nil }

// tokens returns the expander for one host. An unknown token is an error, because ssh refuses the
// whole connection for it.
func (e *evaluation) tokens(t *target) expander {
	port := strconv.Itoa(t.port)
	short, _, _ := strings.Cut(e.local.hostname, ".")
	jump := e.values["proxyjump"].rest
	hash := sha1.Sum([]byte(e.local.hostname + t.host + port + t.user + jump))
	known := map[byte]string{
		'%': "%",
		'C': hex.EncodeToString(hash[:]),
		'd': e.local.home,
		'h': t.host,
		'i': e.local.uid,
		'j': jump,
		'k': cmp.Or(e.first("hostkeyalias"), e.original),
		'L': short,
		'l': e.local.hostname,
		'n': e.original,
		'p': port,
		'r': t.user,
		'u': e.local.name,
	}
	return func(value string) (string, error) {
		var out strings.Builder
		for i := 0; i < len(value); i++ {
			if value[i] != '%' {
				out.WriteByte(value[i])
				continue
			}
			if i++; i == len(value) {
				return "", fmt.Errorf("%q ends in a single %%, so ssh refuses to connect", value)
			}
			text, ok := known[value[i]]
			if !ok {
				return "", fmt.Errorf("%q has the token %%%c, which ssh does not know, so it refuses to connect", value, value[i])
			}
			out.WriteString(text)
		}
		return out.String(), nil
	}
}

// path expands ~, tokens and ${VARIABLES} in a file name.
func (e *evaluation) path(value string, expand expander) (string, error) {
	value, err := e.tilde(value)
	if err != nil {
		return "", err
	}
	if value, err = expand(value); err != nil {
		return "", err
	}
	return environment(value)
}

// paths expands file names. `none` means no file.
func (e *evaluation) paths(names []string, expand expander) ([]string, error) {
	paths := []string{}
	for _, arg := range names {
		if strings.EqualFold(arg, "none") {
			continue
		}
		path, err := e.path(arg, expand)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func (e *evaluation) tilde(path string) (string, error) {
	if !strings.HasPrefix(path, "~") {
		return path, nil
	}
	name, rest, _ := strings.Cut(path[1:], "/")
	home := e.local.home
	if name != "" {
		other, err := user.Lookup(name)
		if err != nil {
			return "", fmt.Errorf("%q: %w", path, err)
		}
		home = other.HomeDir
	}
	return filepath.Join(home, rest), nil
}

// environment replaces ${NAME} by the variable's value. An unset variable is an error, as it is for
// ssh.
func environment(value string) (string, error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(value, "${")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, rest, closed := strings.Cut(after, "}")
		text, set := os.LookupEnv(name)
		if !closed || !set {
			return "", fmt.Errorf("${%s} is not set, so ssh refuses to connect", name)
		}
		out.WriteString(text)
		value = rest
	}
}

// portedName returns the name of a host and port as known_hosts has it (put_host_port in OpenSSH's
// misc.c).
func portedName(host string, port int) string {
	if port == 22 {
		return host
	}
	return "[" + host + "]:" + strconv.Itoa(port)
}
