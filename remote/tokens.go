package remote

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// expander replaces the %-tokens of ssh_config(5) in a value.
type expander func(value string) (string, error)

// plain is for keywords that know no tokens.
func plain(value string) (string, error) { return value, nil }

// tokens is the expander for one host. A token that OpenSSH does not know is
// an error, because ssh refuses the whole connection for it.
func (e *evaluation) tokens(t *target) expander {
	port := strconv.Itoa(t.port)
	short, _, _ := strings.Cut(e.local.hostname, ".")
	jump := e.values["proxyjump"].rest
	alias := e.first("hostkeyalias")
	if alias == "" {
		alias = e.original
	}
	hash := sha1.Sum([]byte(e.local.hostname + t.host + port + t.user + jump))
	known := map[byte]string{
		'%': "%",
		'C': hex.EncodeToString(hash[:]),
		'd': e.local.home,
		'h': t.host,
		'i': e.local.uid,
		'j': jump,
		'k': alias,
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
				return "", fmt.Errorf("%q ends in a lone %%, for which ssh refuses to connect", value)
			}
			text, ok := known[value[i]]
			if !ok {
				return "", fmt.Errorf("%q has the token %%%c, which ssh does not know and refuses to connect for", value, value[i])
			}
			out.WriteString(text)
		}
		return out.String(), nil
	}
}

// path expands a file name: ~, tokens and ${VARIABLES}.
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

// paths expands the file names of a directive; a lone `none` means no file.
func (e *evaluation) paths(d directive, expand expander) ([]string, error) {
	paths := []string{}
	for _, arg := range d.args {
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

// environment replaces ${NAME}. A variable that is not set is an error, as it
// is for ssh.
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
			return "", fmt.Errorf("${%s} is not set, for which ssh refuses to connect", name)
		}
		out.WriteString(text)
		value = rest
	}
}

// portedName is how known_hosts spells a host on a port (put_host_port in
// OpenSSH's misc.c).
func portedName(host string, port int) string {
	if port == 22 {
		return host
	}
	return "[" + host + "]:" + strconv.Itoa(port)
}
