package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestParseNSSwitch(t *testing.T) {
	tests := []struct {
		text, sources string
		plain         bool
	}{
		{"passwd: files sss\nhosts:          files dns\n", "files dns", true},
		{"hosts: dns files # no cache\n", "dns files", true},
		{"hosts:\tfiles mdns4_minimal [NOTFOUND=return] dns\n", "files mdns4_minimal [NOTFOUND=return] dns", false},
		{"hosts: files [NOTFOUND=return] dns\n", "files [NOTFOUND=return] dns", false},
		{" hosts : files  myhostname\n", "files myhostname", false},
		{"#hosts: nis\n", "", true},
		{"", "", true},
	}
	for _, tt := range tests {
		sources, plain := parseNSSwitch(tt.text)
		if sources != tt.sources || plain != tt.plain {
			t.Errorf("parseNSSwitch(%q) = %q, %v; want %q, %v", tt.text, sources, plain, tt.sources, tt.plain)
		}
	}
}

func TestParseAhosts(t *testing.T) {
	tests := []struct {
		output    string
		addresses []string
		canonical string
	}{
		{"10.0.0.1       STREAM w1.cluster\n10.0.0.1       DGRAM  \n10.0.0.1       RAW    \n", []string{"10.0.0.1"}, "w1.cluster"},
		{"fd00::1  STREAM w1\nfd00::1 DGRAM\n10.0.0.1 STREAM \n10.0.0.1 RAW\n", []string{"fd00::1", "10.0.0.1"}, "w1"},
		{"", nil, ""},
	}
	for _, tt := range tests {
		addresses, canonical := parseAhosts(tt.output)
		if diff := cmp.Diff(tt.addresses, addresses); diff != "" || canonical != tt.canonical {
			t.Errorf("parseAhosts(%q): canonical %q, want %q (-want +got)\n%s", tt.output, canonical, tt.canonical, diff)
		}
	}
}

func TestHostsTraps(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"127.0.0.1 localhost\n127.0.1.1\tw3.cluster   w3 # by the installer\n10.0.0.3 w3\n", []string{"127.0.1.1 w3.cluster w3"}},
		{"127.0.0.1 localhost W3\n::1 w3\n", []string{"127.0.0.1 localhost W3", "::1 w3"}},
		{"#127.0.1.1 w3\n127.0.1.1 w33\n127.0.1.300 w3\n", []string{}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, hostsTraps(tt.text, "w3")); diff != "" {
			t.Errorf("hostsTraps(%q): (-want +got)\n%s", tt.text, diff)
		}
	}
}

func TestSampleNames(t *testing.T) {
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf("u@w%04d.cluster", i))
	}
	if got := sampleNames(names[:maxNames], "w0001"); len(got) != maxNames {
		t.Errorf("%d names are sampled down to %d", maxNames, len(got))
	}
	sample := sampleNames(names, "w3333")
	if len(sample) != maxNames {
		t.Errorf("a sample of %d, want %d", len(sample), maxNames)
	}
	if !slices.IsSorted(sample) || len(slices.Compact(slices.Clone(sample))) != len(sample) {
		t.Error("the sample is out of order or repeats itself")
	}
	for _, i := range []int{0, 3332, 3333, 3334} {
		if !slices.Contains(sample, names[i]) {
			t.Errorf("the sample lacks %s", names[i])
		}
	}
	if last := sample[len(sample)-1]; last < names[4900] {
		t.Errorf("the sample ends at %s and is not spread over the fleet", last)
	}
	if diff := cmp.Diff(sample, sampleNames(names, "w3333")); diff != "" {
		t.Errorf("another sample the second time:\n%s", diff)
	}
}

func TestLookUp(t *testing.T) {
	ask := func(_ context.Context, name string) ([]string, string, error) {
		if name != "w1" {
			return nil, "", &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		return []string{"10.0.0.1"}, "w1.cluster", nil
	}
	got, canonical := lookUpAll(t.Context(), ask, []string{"w1", "", "root@w1", "w1", "w2", "10.0.0.7", "u@fd00::7"}, 2)
	want := []facts.Lookup{
		{Name: "w1", Addresses: []string{"10.0.0.1"}},
		{Name: "root@w1", Addresses: []string{"10.0.0.1"}},
		{Name: "w2", Addresses: []string{}, Error: "no such host"},
		{Name: "10.0.0.7", Addresses: []string{"10.0.0.7"}},
		{Name: "u@fd00::7", Addresses: []string{"fd00::7"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || canonical != "w1.cluster" {
		t.Errorf("canonical name %q (-want +got)\n%s", canonical, diff)
	}
}

// A dead name server must cost a few timeouts, not one for every name, and
// what was learned by the deadline must survive it.
func TestLookUpAllWithADeadNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock sync.Mutex
		var open, most int
		count := func(change int) {
			lock.Lock()
			defer lock.Unlock()
			open += change
			most = max(most, open)
		}
		ask := func(ctx context.Context, name string) ([]string, string, error) {
			if name == "w000" {
				return []string{"10.0.0.1"}, name, nil
			}
			count(+1)
			defer count(-1)
			<-ctx.Done()
			return nil, "", ctx.Err()
		}
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("w%03d", i))
		}
		const limit = 2*lookupLimit + lookupLimit/2 // two waves of lookups and the start of a third
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		start := time.Now()
		answers, _ := lookUpAll(ctx, ask, names, 30)
		if took := time.Since(start); took != limit {
			t.Errorf("took %s, want %s", took, limit)
		}
		if most != 30 {
			t.Errorf("%d questions open at once, want 30", most)
		}
		problems := map[string]int{}
		for _, answer := range answers {
			problems[answer.Error]++
			if answer.Unanswered != (answer.Error != "") {
				t.Errorf("%s: unanswered %v with %q", answer.Name, answer.Unanswered, answer.Error)
			}
		}
		want := map[string]int{
			"": 1,
			"no answer from the name service within 3s":                     90,
			"not asked: the name service took all the time for other names": 9,
		}
		if diff := cmp.Diff(want, problems); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestLookupProblem(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{&net.DNSError{Err: "no such host", IsNotFound: true, Server: "10.0.0.53:53"}, "no such host"},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true, Server: "10.0.0.53:53"}, "no answer from name server 10.0.0.53:53 within 3s"},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, "no answer from the name service within 3s"},
		{&net.DNSError{Err: "server misbehaving", Server: "10.0.0.53:53", IsTemporary: true}, "name server 10.0.0.53:53: server misbehaving"},
		{fmt.Errorf("asked: %w", context.DeadlineExceeded), "no answer from the name service within 3s"},
		{errors.New("getent: symbol lookup error"), "getent: symbol lookup error"},
	}
	for _, tt := range tests {
		if got := lookupProblem(tt.err); got != tt.want {
			t.Errorf("lookupProblem(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestFilesFirst(t *testing.T) {
	hosts := parseHosts("10.0.0.1 w1.cluster w1\nfd00::1 W1\n10.0.0.1 w1\n10.0.0.9 login\n")
	var asked []string
	ask := filesFirst(hosts, func(_ context.Context, name string) ([]string, string, error) {
		asked = append(asked, name)
		return []string{"10.0.0.2"}, name, nil
	}, func(_ context.Context, name string) ([]string, string, error) {
		return []string{"fd00::1", "10.0.0.1"}, name, nil
	})
	for name, want := range map[string][]string{
		"w1":    {"fd00::1", "10.0.0.1"}, // several lines: in the order glibc gives them
		"login": {"10.0.0.9"},
		"w2":    {"10.0.0.2"},
	} {
		addresses, _, err := ask(t.Context(), name)
		if diff := cmp.Diff(want, addresses); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
	if diff := cmp.Diff([]string{"w2"}, asked); diff != "" {
		t.Errorf("asked further for (-want +got)\n%s", diff)
	}
}

func TestLookupGetent(t *testing.T) {
	fake := lookupGetent(script(t, "getent", `
[ "$1 $2" = "ahosts --" ] && [ "$LC_ALL" = C ] || exit 9
case "$3" in
w1) echo "10.0.0.1 STREAM w1.cluster" ;;
"w1;touch x") echo "10.0.0.9 STREAM literally" ;;
broken) echo "getent: cannot load libnss_sss.so.2" >&2; exit 127 ;;
hangs) sleep 300 ;;
*) exit 2 ;;
esac
`))
	tests := []struct{ name, want string }{
		{"w1", "[10.0.0.1] w1.cluster <nil>"},
		{"w1;touch x", "[10.0.0.9] literally <nil>"},
		{"w2", "[]  no such host"},
		{"broken", "[]  getent: getent: cannot load libnss_sss.so.2"},
	}
	for _, tt := range tests {
		addresses, canonical, err := fake(t.Context(), tt.name)
		if got := fmt.Sprint(addresses, " ", canonical, " ", err); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := fake(ctx, "hangs"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hangs: %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestCollectNames(t *testing.T) {
	own := ownName(t)
	root := plant(t, strings.ReplaceAll(`
-- etc/nsswitch.conf --
hosts: files
-- etc/hosts --
127.0.1.1 OWN.cluster OWN
10.0.0.2 w2
`, "OWN", own))
	names, err := collectNames(t.Context(), Options{Root: root, Names: []string{"w2", "10.0.0.3"}, Master: "w2"})
	if err != nil {
		t.Fatal(err)
	}
	want := &facts.Names{
		Own:  own,
		FQDN: own + ".cluster",
		Lookups: []facts.Lookup{
			{Name: own, Addresses: []string{"127.0.1.1"}},
			{Name: "w2", Addresses: []string{"10.0.0.2"}},
			{Name: "10.0.0.3", Addresses: []string{"10.0.0.3"}},
		},
		Asked:      2,
		HostsTraps: []string{"127.0.1.1 " + own + ".cluster " + own},
		Resolver:   "files",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Sources that Go does not know are asked through getent, but what stands in
// the hosts file costs no child.
func TestCollectNamesThroughGetent(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	t.Setenv("PATH", filepath.Dir(script(t, "getent", `echo "$3" >> `+asked+`; echo "10.0.0.9 STREAM $3.sss"`)))
	root := plant(t, `
-- etc/nsswitch.conf --
hosts: files sss
-- etc/hosts --
10.0.0.2 w2
`)
	names, err := collectNames(t.Context(), Options{Root: root, Names: []string{"w2", "w9"}})
	if err != nil {
		t.Fatal(err)
	}
	own := ownName(t)
	want := []facts.Lookup{
		{Name: own, Addresses: []string{"10.0.0.9"}},
		{Name: "w2", Addresses: []string{"10.0.0.2"}},
		{Name: "w9", Addresses: []string{"10.0.0.9"}},
	}
	if diff := cmp.Diff(want, names.Lookups); diff != "" || names.FQDN != own+".sss" {
		t.Errorf("FQDN %q (-want +got)\n%s", names.FQDN, diff)
	}
	log, err := os.ReadFile(asked)
	if err != nil || strings.Contains(string(log), "w2") {
		t.Errorf("getent was asked for %q, %v", log, err)
	}
}

func TestLookupGo(t *testing.T) {
	addresses, canonical, err := lookupGo("localhost")(t.Context(), "localhost")
	if err != nil || len(addresses) == 0 || canonical != "localhost" {
		t.Errorf("localhost is %v, canonically %q, %v", addresses, canonical, err)
	}
}

func ownName(t *testing.T) string {
	t.Helper()
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return own
}
