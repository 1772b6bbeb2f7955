// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"preflight/facts"
	"preflight/probe/machine"
)

const (
	// listingLimit is for all places that are listed.
	listingLimit = 1 * time.Second
	// listingEntries is how much a directory may hold, with what is right below it, to be
	// listed: a checkpoint and the indices of a data set do, and the data itself does not.
	listingEntries = 512
)

// listed are the places of which it matters whether nodes have the same in them.
var listed = []string{facts.RoleIndexCache, facts.RoleTokenized, facts.RoleCheckpoint, facts.RoleResume}

// list has the places that are there say what they hold. One that does not answer in time
// says nothing.
func list(ctx context.Context, o machine.Options, places []facts.Place) {
	ctx, cancel := context.WithTimeout(ctx, listingLimit)
	defer cancel()
	for i := range places {
		if place := &places[i]; place.Exists && place.Problem == "" && slices.Contains(listed, place.Role) {
			listing, err := machine.Within(ctx, func() (string, error) { return listing(o.At(place.Path)) })
			if err == nil {
				place.Listing = listing
			}
		}
	}
}

var errTooMuch = errors.New("too much to be listed")

// listing is a digest of the names and sizes of what a directory holds, and of what is right
// below it.
func listing(dir string) (string, error) {
	sum := sha256.New()
	left := listingEntries
	if err := listInto(sum, dir, &left, true); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

func listInto(sum hash.Hash, dir string, left *int, deeper bool) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	entries, err := f.ReadDir(*left + 1)
	if err != nil && !errors.Is(err, io.EOF) { // which an empty one ends with
		return err
	}
	if *left -= len(entries); *left < 0 {
		return errTooMuch
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		size := int64(0)
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		fmt.Fprintf(sum, "%q %t %d\n", entry.Name(), entry.IsDir(), size)
		if entry.IsDir() && deeper {
			if err := listInto(sum, filepath.Join(dir, entry.Name()), left, false); err != nil {
				return err
			}
		}
	}
	return nil
}
