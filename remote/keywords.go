package remote

import "strings"

// keywords are the keywords of ssh_config(5), OpenSSH 7.4 to 10.0, in lower
// case, with those that OpenSSH accepts and ignores.
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

// synonyms are old spellings, by readconf.c's table.
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

// oneArgument are the keywords we act on that ssh refuses with more than one
// argument.
var oneArgument = strings.Fields(`
	addressfamily bindaddress bindinterface canonicalizehostname certificatefile checkhostip ciphers
	connecttimeout controlmaster controlpath gssapiauthentication hostkeyalgorithms hostkeyalias hostname
	identitiesonly identityagent identityfile kexalgorithms macs nohostauthenticationforlocalhost
	pkcs11provider port preferredauthentications pubkeyacceptedalgorithms pubkeyauthentication
	revokedhostkeys sessiontype stricthostkeychecking tag user verifyhostkeydns`)
