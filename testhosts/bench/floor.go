// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// floor uses only x/crypto/ssh to log in to all hosts at once and run hostname. It verifies host
// keys, as a real program must.
func floor(hosts string) int {
	home := os.Getenv("HOME")
	text, err := os.ReadFile(filepath.Join(home, ".ssh", "id_ed25519"))
	if err != nil {
		return complain(err)
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return complain(err)
	}
	known, err := knownhosts.New(filepath.Join(home, ".ssh", "known_hosts"))
	if err != nil {
		return complain(err)
	}
	config := &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: known,
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	}
	names := strings.Split(hosts, ",")
	failures := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { failures[i] = hostname(name, config) })
	}
	all.Wait()
	for i, err := range failures {
		if err != nil {
			return complain(fmt.Errorf("%s: %w", names[i], err))
		}
	}
	return 0
}

func hostname(name string, config *ssh.ClientConfig) error {
	client, err := ssh.Dial("tcp", net.JoinHostPort(name, "22"), config)
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	_, err = session.Output("hostname")
	return err
}

func complain(err error) int {
	fmt.Fprintf(os.Stderr, "floor: %v\n", err)
	return 2
}
