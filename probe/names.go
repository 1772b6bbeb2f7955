package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"preflight/facts"
)

const (
	// maxNames bounds how many hostfile names one node resolves. With a
	// hundred nodes all pairs are asked for; with ten thousand a sample is.
	maxNames = 512
	// lookupLimit is for one name. A name server that takes longer would
	// delay every connection of the launch by as much.
	lookupLimit = 3 * time.Second
	// lookupWorkers is how many names are asked for at once: enough that a
	// dead name server costs a few lookupLimits and not one for every name.
	lookupWorkers = 128
	// childWorkers is the same where each lookup is a process.
	childWorkers = 8
	// lastLookup is how long before the section's deadline lookups end, so
	// that what was learned by then is still reported.
	lastLookup = 300 * time.Millisecond
)

// lookup asks a name service for one name: its addresses in the order given
// and its canonical name.
type lookup func(ctx context.Context, name string) (addresses []string, canonical string, err error)

// collectNames resolves what the launch will resolve, the way glibc would on
// this node: /etc/nsswitch.conf says where names come from.
func collectNames(ctx context.Context, o Options) (*facts.Names, error) {
	own, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("own hostname: %w", err)
	}
	// A missing file is normal: musl has no nsswitch.conf, and a hosts file
	// that is not there gives no names.
	nsswitch, _ := os.ReadFile(o.at("/etc/nsswitch.conf"))
	hosts, _ := os.ReadFile(o.at("/etc/hosts"))
	sources, plain := parseNSSwitch(string(nsswitch))

	ask, workers := lookupGo(own), lookupWorkers
	sorter := ask // Go's resolver sorts as glibc does by default
	if getent, err := exec.LookPath("getent"); err == nil {
		if sorter = lookupGetent(getent); !plain {
			ask, workers = sorter, childWorkers
		}
	}
	if first, _, _ := strings.Cut(sources, " "); first == "files" {
		ask = filesFirst(parseHosts(string(hosts)), ask, sorter)
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-lastLookup))
		defer cancel()
	}

	names := &facts.Names{Own: own, Resolver: sources, Asked: len(o.Names), HostsTraps: hostsTraps(string(hosts), own)}
	wanted := append([]string{own}, o.Master)
	wanted = append(wanted, sampleNames(o.Names, own)...)
	names.Lookups, names.FQDN = lookUpAll(ctx, ask, wanted, workers)
	return names, nil
}

// lookUpAll resolves every distinct name with at most workers questions open,
// and returns the answers in the order of names, with the canonical name of
// the first.
func lookUpAll(ctx context.Context, ask lookup, names []string, workers int) ([]facts.Lookup, string) {
	var answers []facts.Lookup
	for _, name := range names {
		if name != "" && !slices.ContainsFunc(answers, func(a facts.Lookup) bool { return a.Name == name }) {
			answers = append(answers, facts.Lookup{Name: name})
		}
	}
	canonical := make([]string, len(answers))
	open := make(chan struct{}, workers)
	var done sync.WaitGroup
	for i := range answers {
		done.Go(func() {
			open <- struct{}{}
			defer func() { <-open }()
			answers[i], canonical[i] = lookUp(ctx, ask, answers[i].Name)
		})
	}
	done.Wait()
	return answers, canonical[0]
}

// lookUp resolves one name as a hostfile spells it: the user of user@host is
// left out and an address is its own answer.
func lookUp(ctx context.Context, ask lookup, name string) (answer facts.Lookup, canonical string) {
	answer = facts.Lookup{Name: name, Addresses: []string{}}
	host := bare(name)
	if address, err := netip.ParseAddr(host); err == nil {
		answer.Addresses = []string{address.String()}
		return answer, host
	}
	if ctx.Err() != nil {
		answer.Error, answer.Unanswered = "not asked: the name service took all the time for other names", true
		return answer, ""
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	addresses, canonical, err := ask(ctx, host)
	if err != nil {
		var dns *net.DNSError
		answer.Error = lookupProblem(err)
		answer.Unanswered = ctx.Err() != nil || errors.As(err, &dns) && (dns.IsTimeout || dns.IsTemporary)
		return answer, ""
	}
	answer.Addresses = addresses
	return answer, canonical
}

// bare is a hostfile's name without the user it may carry.
func bare(name string) string { return name[strings.LastIndex(name, "@")+1:] }

// lookupProblem says in words why a name did not resolve.
func lookupProblem(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer from the name service within %s", lookupLimit)
	case !errors.As(err, &dns):
		return err.Error()
	case dns.IsNotFound:
		return "no such host"
	case dns.IsTimeout && dns.Server != "":
		return fmt.Sprintf("no answer from name server %s within %s", dns.Server, lookupLimit)
	case dns.IsTimeout:
		return fmt.Sprintf("no answer from the name service within %s", lookupLimit)
	case dns.Server != "":
		return fmt.Sprintf("name server %s: %s", dns.Server, dns.Err)
	}
	return dns.Err
}

// lookupGo asks the sources files and dns, as Go's own resolver knows them. It
// asks for a canonical name, which costs a second question, only for own.
func lookupGo(own string) lookup {
	resolver := &net.Resolver{PreferGo: true}
	return func(ctx context.Context, name string) ([]string, string, error) {
		addresses, err := resolver.LookupHost(ctx, name)
		if err != nil || name != own {
			return addresses, "", err
		}
		canonical, err := resolver.LookupCNAME(ctx, name)
		if err != nil {
			canonical = name // it has addresses, so it is a name of its own
		}
		return addresses, strings.TrimSuffix(canonical, "."), nil
	}
}

// lookupGetent asks whatever modules glibc loads (sss, ldap, resolve,
// myhostname), which only a program linked with glibc can do. One child for
// one name: with several, a name without an answer could not be told apart.
func lookupGetent(path string) lookup {
	return func(ctx context.Context, name string) ([]string, string, error) {
		getent := child{path: path, args: []string{"ahosts", "--", name}, env: append(os.Environ(), "LC_ALL=C")}
		stdout, stderr, err := getent.run(ctx)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 2 {
			return nil, "", errors.New("no such host")
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, "", ctx.Err()
			}
			return nil, "", fmt.Errorf("getent: %s", complaint(stderr, err))
		}
		addresses, canonical := parseAhosts(stdout)
		return addresses, cmp.Or(canonical, name), nil
	}
}

// parseAhosts reads the output of `getent ahosts NAME`: an address a line for
// each socket type, the canonical name beside the first.
func parseAhosts(output string) (addresses []string, canonical string) {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != "STREAM" {
			continue
		}
		if len(fields) > 2 {
			canonical = cmp.Or(canonical, fields[2])
		}
		if !slices.Contains(addresses, fields[0]) {
			addresses = append(addresses, fields[0])
		}
	}
	return addresses, canonical
}

// parseNSSwitch returns the hosts line of nsswitch.conf with single blanks, and
// whether Go's resolver gives the same answers as glibc would for it: only
// files and dns, and no action in brackets that changes how they combine.
func parseNSSwitch(text string) (sources string, plain bool) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		database, rest, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found || strings.TrimSpace(database) != "hosts" {
			continue
		}
		fields := strings.Fields(rest)
		other := func(source string) bool { return source != "files" && source != "dns" }
		return strings.Join(fields, " "), !slices.ContainsFunc(fields, other)
	}
	return "", true
}

// sampleNames bounds names to maxNames: the first (where the master lives),
// this node's neighbours in rank order, and others evenly spread. The same
// hostfile gives the same sample on every run.
func sampleNames(names []string, own string) []string {
	if len(names) <= maxNames {
		return names
	}
	isOwn := func(name string) bool {
		host := bare(name)
		short, _, _ := strings.Cut(host, ".")
		return host == own || short == own
	}
	me := max(slices.IndexFunc(names, isOwn), 0)
	picked := map[int]bool{0: true, me: true, (me + 1) % len(names): true, (me + len(names) - 1) % len(names): true}
	for k := 0; len(picked) < maxNames; k++ {
		picked[k*len(names)/maxNames] = true
	}
	var sample []string
	for i, name := range names {
		if picked[i] {
			sample = append(sample, name)
		}
	}
	return sample
}
