// SPDX-License-Identifier: Apache-2.0

// Package network reads facts about what carries a launch between nodes: interfaces and routes,
// listeners, names, and RDMA adapters. It sends nothing to another node; it asks only name servers.
package network

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
)

const (
	// lookupLimit is the time limit for one name. A name server that takes longer would delay every
	// connection of the launch by as much.
	lookupLimit = 3 * time.Second
	// fileLimit is how long name servers may take to answer for a name that /etc/hosts has as well.
	fileLimit = lookupLimit - 100*time.Millisecond
	// slowLookup is the time from which on a lookup is slow.
	slowLookup = 2 * time.Second
	// lastLookup is how long before the section's deadline the lookups end. That leaves time to
	// report the results.
	lastLookup = 300 * time.Millisecond
)

// lookup resolves one name to its addresses, in the resolver's order.
type lookup func(ctx context.Context, name string) ([]netip.Addr, error)

// CollectNames resolves the names that the launch will resolve, in the same way as glibc on this
// node.
func CollectNames(ctx context.Context, o machine.Options) (*facts.Names, error) {
	own, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("own hostname: %w", err)
	}
	ctx, cancel := machine.Ahead(ctx, lastLookup)
	defer cancel()
	known := hostsys.NewNames(o.Root)
	canonical, published := "", ""
	var asking sync.WaitGroup
	if o.Publishes {
		asking.Go(func() { canonical, published = ownNames(ctx, o.Interpreter) })
	}
	var answer *facts.AddressAnswer
	if o.AddressCommand != "" {
		asking.Go(func() { answer = inLoginShell(ctx, o) })
	}
	wanted := append([]string{own, o.Master, o.CallBack}, o.Names...)
	lookups := lookUpAll(ctx, func(ctx context.Context, name string) ([]netip.Addr, error) {
		return known.LookupAtLast(ctx, fileLimit, "ip", name)
	}, wanted, known.AtOnce())
	reverse := reverseLookup(ctx, lookups[0].Addresses, lookups)
	asking.Wait()
	return &facts.Names{
		Own: own, FQDN: canonical, Published: published, Lookups: lookups, Asked: o.Hosts,
		Resolver: known.Sources, HostsTraps: hostsTraps(known.Hosts, own), AddressAnswer: answer, Reverse: reverse,
	}, nil
}

// askOwnNames asks the C library as torch does. torchrun compares the endpoint with the canonical
// name of the own name, and publishes the result of getfqdn (torch 2.15, elastic/rendezvous/utils.py
// and dynamic_rendezvous.py). In /etc/hosts, the first finds the line with the name, and the second
// finds the first line with the address.
const askOwnNames = `import socket
try:
    print("canonical", socket.getaddrinfo(socket.gethostname(), None, proto=socket.IPPROTO_TCP, flags=socket.AI_CANONNAME)[0][3])
except OSError:
    pass
print("published", socket.getfqdn())
`

// ownNames returns the names that the launch's interpreter has for this machine, "" for each name
// without an answer.
func ownNames(ctx context.Context, interpreter string) (canonical, published string) {
	names := []string{"python3", "python"}
	if interpreter != "" {
		names = []string{interpreter}
	}
	at := slices.IndexFunc(names, func(name string) bool { _, err := exec.LookPath(name); return err == nil })
	if at < 0 {
		return "", ""
	}
	stdout, _, _ := hostsys.Child{Path: names[at], Args: []string{"-I", "-S", "-c", askOwnNames}}.Run(ctx) // without an answer, stdout lacks its line
	for line := range strings.Lines(stdout) {
		switch key, name, _ := strings.Cut(strings.TrimSpace(line), " "); key {
		case "canonical":
			canonical = name
		case "published":
			published = name
		}
	}
	return canonical, published
}

// longestWord is the maximum number of bytes that are kept of a word that a command prints.
const longestWord = 256

// inLoginShell runs the command that the launch runs on this node over ssh. sshd starts the user's
// shell with -c. Bash reads .bashrc then, but only if no other shell started it, which SHLVL shows
// (bash 5.2, shell.c, run_startup_files).
func inLoginShell(ctx context.Context, o machine.Options) *facts.AddressAnswer {
	shell := cmp.Or(machine.Session(o).Shell, "/bin/sh")
	outermost := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "SHLVL=") })
	stdout, stderr, err := hostsys.Child{Path: shell, Name: filepath.Base(shell), Args: []string{"-c", o.AddressCommand}, Env: outermost}.Run(ctx)
	answer := &facts.AddressAnswer{Command: o.AddressCommand}
	if words := strings.Fields(stdout); len(words) > 0 {
		answer.First = strings.ToValidUTF8(words[0][:min(len(words[0]), longestWord)], "")
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && ctx.Err() == nil:
		answer.Exit, answer.Problem = exit.ExitCode(), hostsys.Complaint(stderr, err)
	case err != nil: // the shell did not start, or did not end in time
		answer.Unanswered, answer.Problem = true, hostsys.Complaint(stderr, err)
	}
	return answer
}

// lookUpAll resolves every distinct name, with no more than workers queries at the same time. It
// returns the answers in the order of names.
func lookUpAll(ctx context.Context, ask lookup, names []string, workers int) []facts.Lookup {
	var answers []facts.Lookup
	for _, name := range names {
		if name != "" && !slices.ContainsFunc(answers, func(a facts.Lookup) bool { return a.Name == name }) {
			answers = append(answers, facts.Lookup{Name: name})
		}
	}
	began := time.Now()
	var asking errgroup.Group
	asking.SetLimit(workers)
	for i := range answers {
		asking.Go(func() error {
			answers[i] = lookUp(ctx, ask, answers[i].Name)
			return nil
		})
	}
	_ = asking.Wait() // each answer holds its own error

	// If there was less time than the limit for one name, no name can have taken too long.
	if ctx.Err() != nil && time.Since(began) < lookupLimit {
		for i := range answers {
			if answers[i].Unanswered {
				answers[i].Error = facts.OutOfTime
			}
		}
	}
	return answers
}

// lookUp resolves one name as the hostfile spells it. It ignores the user in user@host.
func lookUp(ctx context.Context, ask lookup, name string) facts.Lookup {
	answer := facts.Lookup{Name: name, Addresses: []string{}}
	if ctx.Err() != nil {
		answer.Error, answer.Unanswered = "not asked: the name service took all the time for other names", true
		return answer
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	began := time.Now()
	addresses, err := ask(ctx, bare(name))
	if took := time.Since(began); took >= slowLookup {
		answer.Seconds = took.Round(100 * time.Millisecond).Seconds()
	}
	if err != nil {
		var dns *net.DNSError
		answer.Error = lookupProblem(err)
		answer.Unanswered = ctx.Err() != nil || errors.As(err, &dns) && (dns.IsTimeout || dns.IsTemporary) && !isCutOff(dns)
		return answer
	}
	for _, address := range addresses {
		answer.Addresses = append(answer.Addresses, address.String())
	}
	return answer
}

// reverseLookup looks up the name of the first address that is not one of own. It returns nil if
// that takes less than slowLookup.
func reverseLookup(ctx context.Context, own []string, lookups []facts.Lookup) *facts.Lookup {
	others := slices.IndexFunc(lookups, func(l facts.Lookup) bool { return len(l.Addresses) > 0 && !slices.Contains(own, l.Addresses[0]) })
	if others < 0 {
		return nil
	}
	address := lookups[others].Addresses[0]
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	began := time.Now()
	_ = hostsys.LookupAddress(ctx, address) // an address may have no name
	took := time.Since(began)
	if took < slowLookup {
		return nil
	}
	return &facts.Lookup{Name: address, Addresses: []string{}, Unanswered: ctx.Err() != nil, Seconds: took.Round(100 * time.Millisecond).Seconds()}
}

// isCutOff reports whether the kernel could not deliver a query to the name server. getaddrinfo then
// fails at once, as for an unknown name. The resolver wraps no errno, only its text.
func isCutOff(err *net.DNSError) bool {
	return slices.ContainsFunc([]syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ECONNREFUSED}, func(errno syscall.Errno) bool {
		return strings.HasSuffix(err.Err, errno.Error())
	})
}

// bare returns a hostfile name without its user.
func bare(name string) string { return name[strings.LastIndex(name, "@")+1:] }

// lookupProblem returns why a name did not resolve.
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
	}
	problem := dns.Err
	if dns.Server != "" {
		problem = fmt.Sprintf("name server %s: %s", dns.Server, dns.Err)
	}
	if dns.IsTemporary {
		problem += " (Temporary failure in name resolution)" // getaddrinfo's message for EAI_AGAIN
	}
	return problem
}

// hostsTraps returns the lines of /etc/hosts that map the machine's own name to a loopback address.
// The lines have one space between words and no comments.
func hostsTraps(hosts []hostsys.HostsLine, own string) []string {
	traps := []string{}
	for _, line := range hosts {
		isOwn := func(name string) bool { return strings.EqualFold(name, own) }
		if line.Address.IsLoopback() && slices.ContainsFunc(line.Names, isOwn) {
			traps = append(traps, line.Address.String()+" "+strings.Join(line.Names, " "))
		}
	}
	return traps
}

// docker returns the subnets of networks in Docker's configuration. It returns nil if the
// configuration cannot be read or parsed.
func docker(o machine.Options) *facts.Docker {
	text, err := os.ReadFile(o.At("/etc/docker/daemon.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return &facts.Docker{}
	}
	var info struct {
		Pools []facts.AddressPool `json:"default-address-pools"`
	}
	if err != nil || json.Unmarshal(text, &info) != nil {
		return nil
	}
	return &facts.Docker{Pools: info.Pools}
}
