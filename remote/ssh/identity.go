// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"preflight/remote"
)

// identity is a key that ssh would offer. A key without a signer is offered too, because only the
// server's answer shows whether this key is needed.
type identity struct {
	public   ssh.PublicKey // nil if it is unknown without the passphrase
	signer   ssh.Signer    // nil if the key cannot be used
	from     string        // the file, or "agent" with the agent's comment
	unusable remote.Cause  // why there is no signer: key-locked, key-permissions, key-unreadable, key-broken, unexpected
	problem  error
	mode     fs.FileMode
}

func (i *identity) String() string {
	if i.public == nil {
		return i.from
	}
	return fmt.Sprintf("%s %s (%s)", i.public.Type(), ssh.FingerprintSHA256(i.public), i.from)
}

// cache keeps values that hosts share, such as the content of a file. Each value is computed once,
// for the first caller.
type cache[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]func() V
}

func (c *cache[K, V]) get(key K, create func(K) V) V {
	c.mu.Lock()
	if c.made == nil {
		c.made = map[K]func() V{}
	}
	if c.made[key] == nil {
		c.made[key] = sync.OnceValue(func() V { return create(key) })
	}
	once := c.made[key]
	c.mu.Unlock()
	return once()
}

// each calls end with every value that was computed.
func (c *cache[K, V]) each(end func(V)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, once := range c.made {
		end(once())
	}
}

// readIdentity returns the identity in a file, nil if the file does not exist.
func readIdentity(path string) *identity {
	id := &identity{from: path, public: readPublic(path + ".pub")}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && id.public != nil {
		id.unusable, id.problem = remote.NoKey, errors.New("only the public half is here") // the agent may hold the private half
		return id
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && info.IsDir():
		id.unusable, id.problem = remote.KeyBroken, errors.New("it is a directory")
		return id
	case err == nil && !info.Mode().IsRegular(): // for example IdentityFile /dev/null, which means none
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		id.unusable, id.problem = remote.KeyUnreadable, err
		return id
	}
	if public := readPublic(path); public != nil {
		id.public, id.unusable, id.problem = public, remote.NoKey, errors.New("the file holds a public key only")
		return id
	}
	id.parse(text)
	if mode, open := tooOpen(info); open {
		id.signer, id.unusable, id.mode = nil, remote.KeyPermissions, mode
		id.problem = fmt.Errorf("others may read it (mode %04o), so ssh ignores it", mode)
	}
	return id
}

// parse reads a private key. If the key has a passphrase, parse reads at least its public half.
func (i *identity) parse(text []byte) {
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		i.signer, i.public = signer, signer.PublicKey()
	case errors.As(err, &locked):
		i.unusable, i.problem = remote.KeyLocked, errors.New("it is protected by a passphrase")
		if locked.PublicKey != nil {
			i.public = locked.PublicKey
		}
	case unknownKind.MatchString(err.Error()):
		i.unusable, i.problem = remote.Unexpected, err
	default:
		i.unusable, i.problem = remote.KeyBroken, err
	}
}

// unknownKind matches x/crypto's error about a valid key that it does not support, such as a key on
// a security key.
var unknownKind = regexp.MustCompile(`unhandled key type|unsupported key type`)

// tooOpen works like sshkey_perm_ok of OpenSSH's authfile.c, which checks only the user's own
// files.
func tooOpen(info fs.FileInfo) (fs.FileMode, bool) {
	owner, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	return mode, ok && int(owner.Uid) == os.Getuid() && mode&0o077 != 0
}

// readPublic reads a public key file. It returns nil if the file has no public key.
func readPublic(path string) ssh.PublicKey {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil
	}
	return key
}

// identities lists the keys that are offered to a host, in the order of pubkey_prepare
// (sshconnect2.c). The agent's keys that the configuration names come first, then the agent's other
// keys, then the keys in files.
func (c *Carrier) identities(ctx context.Context, t *target) (list []*identity, agentProblem error) {
	held, agentProblem := c.agentKeys(ctx, t.agentSocket)
	files := c.fileIdentities(t, held)
	var named, other []*identity
	for _, key := range held {
		i := slices.IndexFunc(files, func(f *identity) bool { return f.public != nil && equalKeys(f.public, key.public) })
		switch {
		case i >= 0:
			files = slices.Delete(files, i, i+1)
			named = append(named, key)
		case !t.identitiesOnly:
			other = append(other, key)
		}
	}
	return slices.Concat(named, other, files), agentProblem
}

// fileIdentities returns the keys in files and their certificates. held lists the agent's keys,
// which can also sign for a certificate.
func (c *Carrier) fileIdentities(t *target, held []*identity) []*identity {
	var list []*identity
	for _, path := range t.identities {
		id := c.keys.get(path, readIdentity)
		if id == nil {
			continue
		}
		list = append(list, id)
		if cert, ok := readPublic(path + "-cert.pub").(*ssh.Certificate); ok && len(t.certificates) == 0 {
			list = append(list, certified(cert, path+"-cert.pub", append(slices.Clone(held), id)))
		}
	}
	keys := slices.Concat(held, list)
	for _, path := range t.certificates {
		if cert, ok := readPublic(path).(*ssh.Certificate); ok {
			list = append(list, certified(cert, path, keys))
		}
	}
	return list
}

// certified returns an identity for a user certificate, with the key that the certificate is for.
func certified(cert *ssh.Certificate, path string, keys []*identity) *identity {
	id := &identity{public: cert, from: path, unusable: remote.Unexpected, problem: errors.New("the key it certifies is not here")}
	for _, key := range keys {
		if key.public == nil || !equalKeys(key.public, cert.Key) {
			continue
		}
		id.unusable, id.problem, id.mode = key.unusable, key.problem, key.mode
		if key.signer == nil {
			continue
		}
		if signer, err := ssh.NewCertSigner(cert, key.signer); err == nil {
			id.signer, id.unusable, id.problem = signer, "", nil
			return id
		}
	}
	return id
}

// agentPatience is how long an ssh-agent may take to list its keys before we continue without them.
// It is shorter than any sensible node timeout, so that a hung agent is reported as such and not as
// a failure of every node.
const agentPatience = 5 * time.Second

var errAgentSilent = errors.New("the ssh-agent did not answer in time")

// sshAgent is one ssh-agent and its keys. The fields are final once listed is closed.
type sshAgent struct {
	listed chan struct{}
	conn   net.Conn
	keys   []*identity
	err    error
}

// agentKeys returns the agent's keys in the agent's order. An empty socket means that there is no
// agent, which is no error. Each agent is asked once.
func (c *Carrier) agentKeys(ctx context.Context, socket string) ([]*identity, error) {
	if socket == "" {
		return nil, nil
	}
	one := c.agents.get(socket, callAgent)
	select {
	case <-one.listed:
		return one.keys, one.err
	case <-ctx.Done():
		return nil, errAgentSilent
	}
}

func callAgent(socket string) *sshAgent {
	a := &sshAgent{listed: make(chan struct{})}
	a.conn, a.err = net.DialTimeout("unix", socket, agentPatience)
	go a.ask()
	return a
}

// ask lists the agent's keys. If the agent hangs, only closing the connection ends this call and
// every later signature.
func (a *sshAgent) ask() {
	defer close(a.listed)
	if a.err != nil {
		return
	}
	patience := time.AfterFunc(agentPatience, func() { a.conn.Close() })
	signers, err := agent.NewClient(a.conn).Signers()
	if !patience.Stop() {
		err = fmt.Errorf("%w: %v. ssh would wait for it forever", errAgentSilent, agentPatience)
	}
	if err != nil {
		a.err = err
		return
	}
	for _, signer := range signers {
		public, err := ssh.ParsePublicKey(signer.PublicKey().Marshal())
		if err != nil {
			continue // x/crypto does not support this kind of key
		}
		from := "agent"
		if key, ok := signer.PublicKey().(*agent.Key); ok && key.Comment != "" {
			from += ": " + key.Comment
		}
		a.keys = append(a.keys, &identity{public: public, signer: signer, from: from})
	}
}

func (a *sshAgent) close() {
	if a.conn != nil {
		a.conn.Close()
	}
	<-a.listed
}
