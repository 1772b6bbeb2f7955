// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"reflect"
	"sync"

	faster "github.com/go-json-experiment/json" // than encoding/json by more than half: what nodes tell is most of what is decoded

	"preflight/agent"
	"preflight/facts"
)

// alike has what several nodes told alike decoded and kept once: of a thousand machines that were set
// up together most of it. A section that is alike to the byte is one value, and of another what is as
// the node before told it. Who changes a section of one node therefore replaces it, and does not write into it.
type alike struct {
	mu       sync.RWMutex
	texts    map[string]string
	sections map[[sha256.Size]byte]*agent.Probed
	latest   map[facts.Section]*agent.Probed // of those that were decoded
}

// decode is what a node told of a section. It must not be changed.
func (told *alike) decode(section facts.Section, body json.RawMessage) (*agent.Probed, error) {
	key := [sha256.Size]byte{}
	hash := sha256.New()
	_, _ = io.WriteString(hash, string(section)+" ")
	_, _ = hash.Write(body)
	hash.Sum(key[:0])
	told.mu.RLock()
	known, before := told.sections[key], told.latest[section]
	told.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	var answer agent.Probed
	if err := faster.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	told.share(&answer.Seen) // first, for it writes into what Adopt would make another node's too
	if before != nil {
		answer.Seen.Adopt(&before.Seen)
	}
	told.mu.Lock()
	defer told.mu.Unlock()
	if told.sections == nil {
		told.sections, told.latest = map[[sha256.Size]byte]*agent.Probed{}, map[facts.Section]*agent.Probed{}
	}
	told.sections[key], told.latest[section] = &answer, &answer
	return &answer, nil
}

const (
	// mostTexts is how many texts are kept to be shared. Those that all nodes have are among the first.
	mostTexts = 1 << 15
	// longText is one that few nodes share.
	longText = 128
)

// share has the facts of a section take no more memory than they need: lists have no room to grow, and texts
// that others have told are theirs.
func (told *alike) share(seen *facts.Facts) {
	var fresh []string
	told.mu.RLock()
	told.trim(reflect.ValueOf(seen).Elem(), &fresh)
	told.mu.RUnlock()
	told.mu.Lock()
	defer told.mu.Unlock()
	if told.texts == nil {
		told.texts = map[string]string{}
	}
	for _, text := range fresh[:min(len(fresh), mostTexts-len(told.texts))] {
		told.texts[text] = text
	}
}

func (told *alike) trim(v reflect.Value, fresh *[]string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			told.trim(v.Elem(), fresh)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			told.trim(v.Field(i), fresh)
		}
	case reflect.Slice:
		if v.Cap() > v.Len() {
			exact := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(exact, v)
			v.Set(exact)
		}
		for i := range v.Len() {
			told.trim(v.Index(i), fresh)
		}
	case reflect.String:
		text := v.String()
		if known, is := told.texts[text]; is {
			v.SetString(known)
		} else if text != "" && len(text) <= longText {
			*fresh = append(*fresh, text)
		}
	}
}
