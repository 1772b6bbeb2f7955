// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"preflight/hostfile"
)

// keywords lists the keywords of ssh_config(5), OpenSSH 7.4 to 10.0, in lower case, including those
// that OpenSSH accepts and ignores.
var keywords = strings.Fields(`
	host match include ignoreunknown
	addkeystoagent addressfamily batchmode bindaddress bindinterface
	canonicaldomains canonicalizefallbacklocal canonicalizehostname canonicalizemaxdots canonicalizepermittedcnames
	casignaturealgorithms certificatefile channeltimeout checkhostip cipher ciphers clearallforwardings
	compression compressionlevel connectionattempts connecttimeout controlmaster controlpath controlpersist
	dynamicforward enableescapecommandline enablesshkeysign escapechar exitonforwardfailure
	fingerprinthash forkafterauthentication forwardagent forwardx11 forwardx11timeout forwardx11trusted
	gatewayports globalknownhostsfile gssapiauthentication gssapidelegatecredentials gssapikeyexchange
	gssapiclientidentity gssapirenewalforcesrekey gssapitrustdns gssapiserveridentity gssapikexalgorithms
	hashknownhosts hostbasedacceptedalgorithms hostbasedauthentication hostkeyalgorithms hostkeyalias hostname
	identitiesonly identityagent identityfile ipqos kbdinteractiveauthentication kbdinteractivedevices
	kexalgorithms knownhostscommand localcommand localforward loglevel logverbose macs
	nohostauthenticationforlocalhost numberofpasswordprompts obscurekeystroketiming passwordauthentication
	permitlocalcommand permitremoteopen pkcs11provider port preferredauthentications protocol
	proxycommand proxyjump proxyusefdpass pubkeyacceptedalgorithms pubkeyauthentication
	refuseconnection rekeylimit remotecommand remoteforward requesttty requiredrsasize revokedhostkeys
	rhostsrsaauthentication rsaauthentication securitykeyprovider sendenv serveralivecountmax serveraliveinterval
	sessiontype setenv stdinnull streamlocalbindmask streamlocalbindunlink stricthostkeychecking
	syslogfacility tag tcpkeepalive tunnel tunneldevice updatehostkeys useprivilegedport useroaming
	user userknownhostsfile userknownhostsfile2 globalknownhostsfile2 verifyhostkeydns versionaddendum visualhostkey warnweakcrypto xauthlocation
	afstokenpassing fallbacktorsh kerberosauthentication kerberostgtpassing rhostsauthentication
	useblacklistedkeys usersh`)

// synonyms maps old spellings to new ones, from readconf.c's table.
var synonyms = map[string]string{
	"challengeresponseauthentication": "kbdinteractiveauthentication",
	"skeyauthentication":              "kbdinteractiveauthentication",
	"tisauthentication":               "kbdinteractiveauthentication",
	"dsaauthentication":               "pubkeyauthentication",
	"hostbasedkeytypes":               "hostbasedacceptedalgorithms",
	"identityfile2":                   "identityfile",
	"keepalive":                       "tcpkeepalive",
	"pubkeyacceptedkeytypes":          "pubkeyacceptedalgorithms",
	"smartcarddevice":                 "pkcs11provider",
}

// oneArgument lists the keywords that we use and that ssh refuses with more than one argument.
var oneArgument = strings.Fields(`
	addressfamily bindaddress bindinterface canonicalizehostname certificatefile checkhostip ciphers
	connecttimeout controlmaster controlpath gssapiauthentication hostkeyalgorithms hostkeyalias hostname
	identitiesonly identityagent identityfile kexalgorithms macs nohostauthenticationforlocalhost
	pkcs11provider port preferredauthentications pubkeyacceptedalgorithms pubkeyauthentication
	revokedhostkeys sessiontype stricthostkeychecking tag user verifyhostkeydns`)

// connection sets how to connect to the host.
func (e *evaluation) connection(t *target, _ expander) error {
	t.network = "tcp"
	switch {
	case e.isOneOf("addressfamily", "inet"):
		t.network = "tcp4"
	case e.isOneOf("addressfamily", "inet6"):
		t.network = "tcp6"
	}
	t.bindAddress = e.first("bindaddress")
	if value := e.first("connecttimeout"); value != "" {
		seconds, err := parseSeconds(value)
		if err != nil {
			return err
		}
		t.connectTimeout = time.Duration(seconds) * time.Second
	}
	return nil
}

// verification sets which key the host must show.
func (e *evaluation) verification(t *target, expand expander) error {
	switch {
	case e.isOneOf("stricthostkeychecking", "yes", "true"):
		t.strict = "yes"
	case e.isOneOf("stricthostkeychecking", "accept-new"):
		t.strict = "accept-new"
	case e.isOneOf("stricthostkeychecking", "no", "off", "false"):
		t.strict = "no"
	}
	t.trustLocalhost = e.isOneOf("nohostauthenticationforlocalhost", "yes", "true")
	// As in find_host_key_name and get_hostfile_hostname_ipaddr (sshconnect.c), an alias replaces
	// both host and port.
	t.keyName = strings.ToLower(e.first("hostkeyalias"))
	if t.aliased = t.keyName != ""; !t.aliased {
		t.keyName = portedName(t.host, t.port)
	}
	ssh := filepath.Join(e.local.home, ".ssh")
	t.userKnown = []string{filepath.Join(ssh, "known_hosts"), filepath.Join(ssh, "known_hosts2")}
	var err error
	if d, ok := e.values["userknownhostsfile"]; ok {
		if t.userKnown, err = e.paths(d.args, expand); err != nil {
			return err
		}
	}
	if d, ok := e.values["globalknownhostsfile"]; ok {
		t.globalKnown, err = e.paths(d.args, noTokens)
	}
	return err
}

// login sets the user and the keys.
func (e *evaluation) login(t *target, expand expander) error {
	t.publicKey = !e.isOneOf("pubkeyauthentication", "no", "false")
	if methods := e.first("preferredauthentications"); methods != "" {
		t.publicKey = t.publicKey && slices.Contains(strings.Split(methods, ","), "publickey")
	}
	t.identitiesOnly = e.isOneOf("identitiesonly", "yes", "true")
	var err error
	if t.identities, err = e.paths(e.identities, expand); err != nil {
		return err
	}
	if len(e.identities) == 0 {
		for _, name := range defaultIdentities {
			t.identities = append(t.identities, filepath.Join(e.local.home, ".ssh", name))
		}
	}
	if t.certificates, err = e.paths(e.certificates, expand); err != nil {
		return err
	}
	return e.agent(t, expand)
}

// agent sets which ssh-agent to ask. IdentityAgent has its own syntax.
func (e *evaluation) agent(t *target, expand expander) error {
	value := e.first("identityagent")
	t.agentChosen = value != "" && value != "SSH_AUTH_SOCK"
	var err error
	switch {
	case !t.agentChosen, strings.EqualFold(value, "none"):
	case strings.HasPrefix(value, "$") && !strings.HasPrefix(value, "${"):
		t.agentSocket = os.Getenv(value[1:])
	default:
		t.agentSocket, err = e.path(value, expand)
	}
	return err
}

// proxies sets the jump host or command through which the connection goes.
func (e *evaluation) proxies(t *target, h hop, expand expander) error {
	jump := cmp.Or(h.jump, e.values["proxyjump"].rest)
	if jump != "" && !strings.EqualFold(jump, "none") {
		hop, err := parseJump(jump)
		t.jump = hop
		return err
	}
	command := e.values["proxycommand"].rest
	if command == "" || strings.EqualFold(command, "none") {
		return nil
	}
	if unsafe := unsafeInShell(t.host, t.user, t.original); unsafe != "" {
		return fmt.Errorf("%q has characters that a shell would interpret, so it cannot be used in the ProxyCommand at %s",
			unsafe, e.values["proxycommand"].where())
	}
	var err error
	t.shell = cmp.Or(os.Getenv("SHELL"), "/bin/sh")
	t.proxyCommand, err = expand(command)
	return err
}

// unsafeInShell returns the first word that valid_hostname or valid_ruser of OpenSSH (ssh.c, since
// 9.6) would refuse, "" if all words are safe.
func unsafeInShell(words ...string) string {
	for _, word := range words {
		if strings.HasPrefix(word, "-") || strings.ContainsAny(word, "'`\"$\\;&<>|(){}") ||
			strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return word
		}
	}
	return ""
}

// parseJump parses a ProxyJump list. The last host of the list leads to the target. The hosts
// before it lead to the last host.
func parseJump(list string) (*hop, error) {
	before, last := "", list
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		before, last = list[:i], list[i+1:]
	}
	h := hop{name: strings.TrimPrefix(strings.TrimSpace(last), "ssh://"), jump: before}
	h.user, h.name = userAndHost(h.name)
	port := ""
	if bracketed, ok := strings.CutPrefix(h.name, "["); ok {
		h.name, port, ok = strings.Cut(bracketed, "]")
		if !ok || port != "" && port[0] != ':' {
			return nil, fmt.Errorf("invalid ProxyJump %q", list)
		}
		port = strings.TrimPrefix(port, ":")
	} else if strings.Count(h.name, ":") == 1 {
		h.name, port, _ = strings.Cut(h.name, ":")
	}
	if port != "" {
		var err error
		if h.port, err = parsePort(port); err != nil {
			return nil, fmt.Errorf("invalid ProxyJump %q: %w", list, err)
		}
	}
	if h.name == "" {
		return nil, fmt.Errorf("invalid ProxyJump %q", list)
	}
	return &h, nil
}

// userAndHost splits user@host. user is "" if the name has no user.
func userAndHost(name string) (user, host string) {
	host = hostfile.Bare(name)
	return strings.TrimSuffix(name[:len(name)-len(host)], "@"), host
}

// differences records settings for this host that ssh follows and preflight does not.
func (e *evaluation) differences(t *target) {
	on := func(keyword string) bool { return e.isOneOf(keyword, "yes", "true", "always") }
	set := func(keyword string) bool { return e.isSet(keyword) && !e.isOneOf(keyword, "none", "no", "false") }
	for _, other := range []struct {
		holds    bool
		sentence string
	}{
		{on("canonicalizehostname"), fmt.Sprintf("CanonicalizeHostname is on: ssh may complete %s from CanonicalDomains; preflight uses the name unchanged", t.original)},
		{on("verifyhostkeydns"), "VerifyHostKeyDNS is on: ssh would also accept a host key from secure DNS; preflight reads only known_hosts"},
		{on("checkhostip"), "CheckHostIP is on: ssh would also compare the key known for the address; preflight checks only the name"},
		{set("controlpath"), "ControlPath is set: ssh uses an open master connection, if there is one, and does not log in again"},
		{set("remotecommand"), "RemoteCommand is set: ssh refuses to run the launcher's command as well"},
		{e.isOneOf("sessiontype", "none", "subsystem"), fmt.Sprintf("SessionType is %s: ssh would not run the launcher's command", e.first("sessiontype"))},
		{!e.isOneOf("connectionattempts", "", "1"), fmt.Sprintf("ssh would try to connect %s times (ConnectionAttempts); preflight tries once", e.first("connectionattempts"))},
		{set("bindinterface"), "BindInterface is set: ssh would connect from that interface's address; preflight lets the kernel choose"},
		{set("knownhostscommand"), "KnownHostsCommand is set: ssh would run it for host keys; preflight does not"},
		{set("revokedhostkeys"), "RevokedHostKeys is set: ssh would refuse the keys listed there; preflight does not read it"},
		{set("pkcs11provider"), "PKCS11Provider is set: ssh would offer its keys too; preflight cannot"},
		{set("proxyusefdpass"), "ProxyUseFdpass is set: ssh would take the connection over from the ProxyCommand; preflight talks through the ProxyCommand"},
		{set("refuseconnection"), "RefuseConnection is set: ssh would not connect at all"},
	} {
		if other.holds {
			e.note("%s", other.sentence)
		}
	}
	t.gssapi = e.isOneOf("gssapiauthentication", "yes", "true")
	t.hostbased = e.isOneOf("hostbasedauthentication", "yes", "true")
}
