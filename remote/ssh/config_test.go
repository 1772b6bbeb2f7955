// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oracleConfigs lists configurations whose result the test compares with the output of the real
// ssh. $DIR is the directory of the files.
var oracleConfigs = []struct {
	name  string
	files map[string]string // files besides "config"
	hosts []string
}{
	{"first value wins", map[string]string{"config": "Port 2201\nHost w1\n Port 2202\n User alice\nHost *\n User bob\n"}, []string{"w1", "w2"}},
	{"patterns and negation", map[string]string{"config": "Host w* !w3 gpu?\n User yes\nHost *\n User no\n"}, []string{"w1", "w3", "gpu7", "gpu77", "x", "W1"}},
	{"hostname token", map[string]string{"config": "Host w*\n HostName %h.cluster.example\nHost pct\n HostName a%%b\n"}, []string{"w1", "x", "pct"}},
	{"equals, quotes, comments, case", map[string]string{"config": "HOST=w1\n\tUser = \"al ice\" # who\n  pOrT\t= 2222\n#User x\nIdentityFile \"$DIR/a key\"\nIdentityFile '$DIR/other'\n"}, []string{"w1", "w2"}},
	{"match host", map[string]string{"config": "Host alias\n HostName Real.Example\nMatch host real.*\n User matched\nMatch originalhost alias\n Port 2345\nMatch host alias\n Port 1\n"}, []string{"alias", "real.example", "REAL.example"}},
	{"match with several criteria", map[string]string{"config": "Match host w*,!w2 user root\n Port 2001\nMatch !host w1 !user nobody\n Port 2002\nMatch all\n IdentitiesOnly yes\n"}, []string{"w1", "w2", "nobody@w3", "root@w3"}},
	{"match user by config", map[string]string{"config": "Host w1\n User carol\nMatch user carol\n Port 2003\n"}, []string{"w1", "w2", "carol@w2"}},
	{"match localuser", map[string]string{"config": "Match localuser root,nobody,*\n Port 2004\n"}, []string{"w1"}},
	{"match final", map[string]string{"config": "Host w1\n HostName real\nHost real\n Port 2005\nMatch final host real\n User late\nMatch canonical\n IdentitiesOnly yes\n"}, []string{"w1", "real", "w2"}},
	{"match not final", map[string]string{"config": "Match final\n User second\nMatch !final host w1\n User first\nMatch !final\n Port 2006\n"}, []string{"w1", "w2"}},
	{"no final pass unless asked", map[string]string{"config": "Host w1\n HostName real\nHost real\n Port 2005\nMatch canonical\n User never\n"}, []string{"w1"}},
	{"include inside a block", map[string]string{
		"config":   "Host w1\n Include $DIR/one*.conf\nUser after\nHost *\n Port 2100\n",
		"one.conf": "User included\nHost w2\n Port 2101\nHost w1\n Port 2102\n", "one2.conf": "IdentitiesOnly yes\n",
	}, []string{"w1", "w2"}},
	{"include of nothing", map[string]string{"config": "Include $DIR/none*\nPort 2103\n"}, []string{"w1"}},
	{"identity files add up", map[string]string{"config": "Host w1\n IdentityFile $DIR/a\nHost *\n IdentityFile $DIR/b\n IdentityFile $DIR/a\n CertificateFile $DIR/c\n"}, []string{"w1", "w2"}},
	{"known hosts files", map[string]string{"config": "Host w1\n UserKnownHostsFile $DIR/k1 $DIR/k2\n GlobalKnownHostsFile $DIR/g1\nHost *\n UserKnownHostsFile $DIR/k3\n HostKeyAlias Alias\n"}, []string{"w1", "w2"}},
	{"strictness", map[string]string{"config": "Host w1\n StrictHostKeyChecking no\nHost w2\n StrictHostKeyChecking accept-new\nHost w3\n StrictHostKeyChecking off\nHost w4\n StrictHostKeyChecking yes\n"}, []string{"w1", "w2", "w3", "w4", "w5"}},
	{"jump before command", map[string]string{"config": "Host w1\n ProxyJump bob@j1:2200,j2\n ProxyCommand nc %h %p\nHost w2\n ProxyCommand nc %h %p\n ProxyJump j1\nHost w3\n ProxyJump none\nHost *\n ProxyJump j3\n"}, []string{"w1", "w2", "w3", "w4"}},
	{"timeouts", map[string]string{"config": "Host w1\n ConnectTimeout 1m30\nHost w2\n ConnectTimeout 7\nHost w3\n ConnectTimeout none\n"}, []string{"w1", "w2", "w3"}},
	{"families and methods", map[string]string{"config": "Host w1\n AddressFamily inet6\n PubkeyAuthentication no\nHost *\n AddressFamily inet\n BindAddress 127.0.0.1\n"}, []string{"w1", "w2"}},
	{"host key algorithms", map[string]string{"config": "Host w1\n HostKeyAlgorithms +ssh-rsa\nHost w2\n HostKeyAlgorithms -ecdsa*\nHost w3\n HostKeyAlgorithms ^rsa-sha2-256\nHost w4\n HostKeyAlgorithms rsa-sha2-512,ssh-ed25519\n"}, []string{"w1", "w2", "w3", "w4", "w5"}},
	{"escapes", map[string]string{"config": "Host w\\ 1 w2\n User a\\\"b\n"}, []string{"w2"}},
}

func TestConfigAgainstSSH(t *testing.T) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("NO ORACLE: ssh is not installed, so nothing here is compared: install openssh-client")
	}
	for _, test := range oracleConfigs {
		t.Run(test.name, func(t *testing.T) {
			home, c := configured(t, test.files)
			for _, host := range test.hosts {
				file := filepath.Join(home, ".ssh", "config")
				out, err := exec.Command(ssh, "-G", "-F", file, host).CombinedOutput()
				if err != nil {
					t.Fatalf("ssh -G %s: %v\n%s", host, err, out)
				}
				h := hop{name: host}
				if user, name, ok := strings.Cut(host, "@"); ok {
					h.user, h.name = user, name
				}
				got, err := c.resolve(h)
				if err != nil {
					t.Fatalf("resolve %s: %v", host, err)
				}
				if diff := cmp.Diff(oracle(string(out), home), resolvedText(got, c)); diff != "" {
					t.Errorf("%s: ssh (-) and we (+) differ:\n%s", host, diff)
				}
			}
		})
	}
}

// configured writes the files below a new home directory and reads them.
func configured(t *testing.T, files map[string]string) (home string, c *Carrier) {
	t.Helper()
	home = t.TempDir()
	dir := filepath.Join(home, ".ssh")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		text = strings.ReplaceAll(text, "$DIR", dir)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := New(Options{Home: home, SystemConfig: filepath.Join(home, "etc", "ssh_config"), AgentSocket: filepath.Join(home, "no-agent")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return home, c
}

// resolvedText returns our result in the format of ssh -G.
func resolvedText(g *target, c *Carrier) map[string]string {
	jump := ""
	if g.jump != nil {
		jump = g.jump.name
		if g.jump.port != 0 {
			jump = "[" + jump + "]:" + strconv.Itoa(g.jump.port)
		}
		if g.jump.user != "" {
			jump = g.jump.user + "@" + jump
		}
		if g.jump.jump != "" {
			jump = g.jump.jump + "," + jump
		}
	}
	identities := slices.DeleteFunc(slices.Clone(g.identities), func(path string) bool {
		return strings.HasPrefix(filepath.Base(path), "id_") // the default identities
	})
	only := func(algorithms []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(algorithms), func(a string) bool { return strings.HasPrefix(a, "sk-") }), ",")
	}
	alias := ""
	if g.aliased {
		alias = g.keyName
	}
	return map[string]string{
		"hostname": g.host, "user": g.user, "port": strconv.Itoa(g.port),
		"identityfile": strings.Join(identities, " "), "certificatefile": strings.Join(g.certificates, " "),
		"identitiesonly": strconv.FormatBool(g.identitiesOnly), "pubkeyauthentication": strconv.FormatBool(g.publicKey),
		"userknownhostsfile": strings.Join(g.userKnown, " "), "globalknownhostsfile": strings.Join(g.globalKnown, " "),
		"stricthostkeychecking": g.strict, "hostkeyalias": alias, "proxyjump": jump, "proxycommand": g.proxyCommand,
		"connecttimeout": strconv.Itoa(int(g.connectTimeout.Seconds())), "addressfamily": g.network,
		"bindaddress": g.bindAddress, "hostkeyalgorithms": only(g.hostKeyAlgorithms),
	}
}

// oracle converts the output of ssh -G to the same format.
func oracle(out, home string) map[string]string {
	want := map[string]string{
		"identityfile": "", "certificatefile": "", "hostkeyalias": "", "proxyjump": "", "proxycommand": "", "bindaddress": "",
	}
	word := map[string]map[string]string{
		"stricthostkeychecking": {"true": "yes", "false": "no"},
		"identitiesonly":        {"yes": "true", "no": "false"},
		"pubkeyauthentication":  {"yes": "true", "no": "false"},
		"addressfamily":         {"any": "tcp", "inet": "tcp4", "inet6": "tcp6"},
		"connecttimeout":        {"none": "0"},
	}
	global := filepath.Join(home, "etc")
	me, err := user.Current() // ssh uses only the home from the password database
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		value = strings.NewReplacer("~/", home+"/", me.HomeDir+"/.ssh/", home+"/.ssh/", "/etc/ssh/ssh_known_hosts", global+"/ssh_known_hosts").Replace(value)
		if known, ok := word[key][value]; ok {
			value = known
		}
		switch key {
		case "identityfile", "certificatefile":
			if strings.HasPrefix(filepath.Base(value), "id_") {
				continue // the value is a default
			}
			value = strings.TrimSpace(want[key] + " " + value)
		case "hostkeyalgorithms":
			value = strings.Join(slices.DeleteFunc(strings.Split(value, ","), func(a string) bool { return strings.HasPrefix(a, "sk-") }), ",")
		case "hostkeyalias":
			value = strings.ToLower(value)
		case "proxycommand":
			value = strings.NewReplacer("%h", want["hostname"], "%p", want["port"]).Replace(value)
		case "hostname", "user", "port", "identitiesonly", "pubkeyauthentication", "userknownhostsfile", "globalknownhostsfile",
			"stricthostkeychecking", "proxyjump", "connecttimeout", "addressfamily", "bindaddress":
		default:
			continue
		}
		want[key] = value
	}
	return want
}

func TestConfigTokens(t *testing.T) {
	t.Setenv("PREFLIGHT_TEST_DIR", "/keys")
	home, c := configured(t, map[string]string{"config": "Host w1\n HostName real\n User alice\n Port 2200\n" +
		" IdentityFile ~/.ssh/%r-%h-%n-%p-%%\n IdentityFile %d/k\n IdentityFile ${PREFLIGHT_TEST_DIR}/x\n UserKnownHostsFile ~/k-%k none\n" +
		" ProxyCommand relay %r@%h:%p \"as %n\" # kept\n"})
	got, err := c.resolve(hop{name: "w1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{home + "/.ssh/alice-real-w1-2200-%", home + "/k", "/keys/x"}, got.identities); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{home + "/k-w1"}, got.userKnown); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(`relay alice@real:2200 "as w1" # kept`, got.proxyCommand); diff != "" {
		t.Error(diff)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, test := range []struct{ name, config, want string }{
		{"open quote", "Host w1\n User \"a\n", ".ssh/config:2: a quote is never closed"},
		{"no argument", "User\n", `.ssh/config:1: no argument after keyword "User"`},
		{"bad port", "Port x\n", `.ssh/config:1: "x" is not a port`},
		{"two ports", "Port 22 23\n", "port takes one argument"},
		{"circle", "Include $DIR/config\n", "too many recursive includes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			home := t.TempDir()
			dir := filepath.Join(home, ".ssh")
			os.Mkdir(dir, 0o700)
			os.WriteFile(filepath.Join(dir, "config"), []byte(strings.ReplaceAll(test.config, "$DIR", dir)), 0o600)
			_, err := New(Options{Home: home, SystemConfig: filepath.Join(home, "none")})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New: %v, want %q", err, test.want)
			}
		})
	}
}

func TestConfigOthersMayWrite(t *testing.T) {
	home, _ := configured(t, map[string]string{"config": "Port 2200\n"})
	os.Chmod(filepath.Join(home, ".ssh", "config"), 0o620)
	_, err := New(Options{Home: home, SystemConfig: filepath.Join(home, "none")})
	if err == nil || !strings.Contains(err.Error(), "bad owner or permissions") {
		t.Errorf("New: %v", err)
	}
}

// TestConfigPrecedence: the user's file overrides the system's, and the command line overrides
// both. Relative includes start in each file's directory.
func TestConfigPrecedence(t *testing.T) {
	home, _ := configured(t, map[string]string{"config": "Include more\nUser mine\n", "more": "Port 2300\n"})
	system := filepath.Join(home, "etc")
	os.Mkdir(system, 0o755)
	os.WriteFile(filepath.Join(system, "ssh_config"), []byte("Include d/*.conf\nUser theirs\nPort 2301\n"), 0o644)
	os.Mkdir(filepath.Join(system, "d"), 0o755)
	os.WriteFile(filepath.Join(system, "d", "a.conf"), []byte("HashKnownHosts yes\nStrictHostKeyChecking yes\n"), 0o666)
	c, err := New(Options{Home: home, SystemConfig: filepath.Join(system, "ssh_config")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, test := range []struct {
		hop  hop
		want string
	}{
		{hop{name: "w1"}, "mine 2300 yes"},
		{hop{name: "w1", user: "cli", port: 2400}, "cli 2400 yes"},
	} {
		got, err := c.resolve(test.hop)
		if err != nil {
			t.Fatal(err)
		}
		if text := got.user + " " + strconv.Itoa(got.port) + " " + got.strict; text != test.want {
			t.Errorf("%+v: %q, want %q", test.hop, text, test.want)
		}
	}
}

// TestConfigDifferences: every case is something that ssh does and preflight does not. preflight
// must report it.
func TestConfigDifferences(t *testing.T) {
	for _, test := range []struct{ config, want string }{
		{"Match exec true\n Port 1\n", "`Match exec`"},
		{"Match host w1 exec true\n Port 1\n", "`Match exec`"},
		{"Match host w2 exec true\n Port 1\n", ""},
		{"CanonicalizeHostname yes\n", "CanonicalizeHostname"},
		{"VerifyHostKeyDNS yes\n", "VerifyHostKeyDNS"},
		{"VerifyHostKeyDNS no\n", ""},
		{"PKCS11Provider /lib/x.so\n", "PKCS11Provider"},
		{"ControlPath ~/.ssh/%C\n", "ControlPath"},
		{"ControlPath none\n", ""},
		{"RemoteCommand hostname\n", "RemoteCommand"},
		{"SessionType none\n", "SessionType"},
		{"ConnectionAttempts 3\n", "3 times"},
		{"Flavour vanilla\n", `keyword "flavour"`},
		{"IgnoreUnknown Fla*\nFlavour vanilla\n", ""},
		{"KexAlgorithms sntrup761x25519-sha512@openssh.com\n", "kexalgorithms allows only"},
	} {
		_, c := configured(t, map[string]string{"config": test.config})
		got, err := c.resolve(hop{name: "w1"})
		if err != nil {
			t.Fatalf("%q: %v", test.config, err)
		}
		if output := strings.Join(got.openSSH, "\n"); (test.want == "") != (output == "") || !strings.Contains(output, test.want) {
			t.Errorf("%q: said %q, want %q", test.config, output, test.want)
		}
	}
}

// TestProxyCommandRefusesShellCharacters: a hostfile is data, so its text must not become part of a
// shell command.
func TestProxyCommandRefusesShellCharacters(t *testing.T) {
	_, c := configured(t, map[string]string{"config": "ProxyCommand nc %h %p\n"})
	for _, name := range []string{"w1;touch x", "$(id)", "-oProxyCommand=x", "a b", "`id`"} {
		if got, err := c.resolve(hop{name: name}); err == nil {
			t.Errorf("%q became %q", name, got.proxyCommand)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, test := range oracleConfigs {
		f.Add(test.files["config"], test.hosts[0])
	}
	f.Add("Match !exec \"a # b\" host=x\nHost \\\"\n", "x")
	f.Fuzz(func(t *testing.T, text, host string) {
		r := configReader{base: "/nowhere", home: "/nowhere", private: true}
		file, err := r.parse(strings.NewReader(strings.ReplaceAll(strings.ToLower(text), "include", "port")), "config", 0)
		if err != nil {
			return
		}
		c := &Carrier{config: configFiles{files: []configFile{file}}, local: account{name: "me", home: "/nowhere"}}
		got, err := c.resolve(hop{name: host})
		if err == nil && (got.port < 1 || got.port > 65535 || got.user == "" || len(got.hostKeyAlgorithms) == 0) {
			t.Errorf("%q for %q: %+v", text, host, got)
		}
	})
}
