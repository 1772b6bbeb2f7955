package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// identity is a key ssh would offer. One without a signer is offered too,
// because only the server's answer tells whether it is the key that is missed.
type identity struct {
	public   ssh.PublicKey // nil when nothing tells it without the passphrase
	signer   ssh.Signer    // nil when it cannot be used
	from     string        // the file, or "agent" with the agent's comment
	unusable Cause         // why there is no signer: key-locked, key-permissions, unexpected
	problem  error
	mode     fs.FileMode
}

func (i *identity) String() string {
	if i.public == nil {
		return i.from
	}
	return fmt.Sprintf("%s %s (%s)", i.public.Type(), ssh.FingerprintSHA256(i.public), i.from)
}

// keyFiles keeps every key file that some host asked for. Each is read once.
type keyFiles struct {
	mu    sync.Mutex
	files map[string]func() *identity
}

// load gives the identity in a file, nil when there is no such file.
func (k *keyFiles) load(path string) *identity {
	k.mu.Lock()
	if k.files == nil {
		k.files = map[string]func() *identity{}
	}
	read := k.files[path]
	if read == nil {
		read = sync.OnceValue(func() *identity { return readIdentity(path) })
		k.files[path] = read
	}
	k.mu.Unlock()
	return read()
}

func readIdentity(path string) *identity {
	id := &identity{from: path, public: readPublic(path + ".pub")}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && id.public != nil {
		id.unusable, id.problem = NoKey, errors.New("only the public half is here") // the agent may hold the other
		return id
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		id.unusable, id.problem, id.mode = KeyPermissions, err, info.Mode().Perm()
		return id
	}
	if public := readPublic(path); public != nil {
		id.public, id.unusable, id.problem = public, NoKey, errors.New("the file holds a public key only")
		return id
	}
	id.parse(text)
	if mode, open := tooOpen(info); open {
		id.signer, id.unusable, id.mode = nil, KeyPermissions, mode
		id.problem = fmt.Errorf("others may read it (mode %04o), so ssh ignores it", mode)
	}
	return id
}

// parse reads a private key, or at least the public half beside a passphrase.
func (i *identity) parse(text []byte) {
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		i.signer, i.public = signer, signer.PublicKey()
	case errors.As(err, &locked):
		i.unusable, i.problem = KeyLocked, errors.New("it is locked by a passphrase")
		if locked.PublicKey != nil {
			i.public = locked.PublicKey
		}
	default:
		i.unusable, i.problem = Unexpected, err // a security key, or no key at all
	}
}

// tooOpen is sshkey_perm_ok of OpenSSH's authfile.c: it minds our own files
// only.
func tooOpen(info fs.FileInfo) (fs.FileMode, bool) {
	owner, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	return mode, ok && int(owner.Uid) == os.Getuid() && mode&0o077 != 0
}

// readPublic reads a public key file, nil when it holds none.
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

// identities lists what is offered to a host, in the order of pubkey_prepare
// (sshconnect2.c): the agent's keys that the configuration names, its other
// keys, then the files.
func (c *SSH) identities(ctx context.Context, t *target) (list []*identity, agentProblem error) {
	held, agentProblem := c.agents.list(ctx, t.agentSocket)
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

// fileIdentities are the keys of the files and their certificates. held are
// the agent's keys, which can sign for a certificate as well.
func (c *SSH) fileIdentities(t *target, held []*identity) []*identity {
	var list []*identity
	for _, path := range t.identities {
		id := c.keys.load(path)
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

// certified joins a user certificate with the key it certifies.
func certified(cert *ssh.Certificate, path string, keys []*identity) *identity {
	id := &identity{public: cert, from: path, unusable: Unexpected, problem: errors.New("the key it certifies is not here")}
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
