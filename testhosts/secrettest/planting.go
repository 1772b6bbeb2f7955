// SPDX-License-Identifier: Apache-2.0

package secrettest

import (
	"reflect"
	"strings"
)

// Planting inserts tokens into values and finds them again.
type Planting struct {
	Tokens []Token
	Each   int // number of texts for each inserted token
	Count  int // number of inserted tokens

	texts  int
	starts map[string][]string // the secret parts of the tokens, by their first characters
}

// In adds a token to every Each-th text that the value points to. It adds a different token each
// time.
func (p *Planting) In(value any) { p.in(reflect.ValueOf(value)) }

func (p *Planting) in(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if p.texts++; v.CanSet() && p.texts%p.Each == 0 {
			v.SetString(v.String() + " " + p.Tokens[p.Count%len(p.Tokens)].Text)
			p.Count++
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			p.in(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			p.in(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			p.in(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			p.in(value)
			v.SetMapIndex(key, value)
		}
	}
}

// shortestSecret is the length of the shortest random part of a token.
const shortestSecret = 4

// Found returns the secrets in a text, each with a part of the text before the secret.
func (p *Planting) Found(text string) (found []string) {
	if p.starts == nil {
		p.starts = map[string][]string{}
		for _, token := range p.Tokens {
			for _, secret := range token.Secrets {
				p.starts[secret[:shortestSecret]] = append(p.starts[secret[:shortestSecret]], secret)
			}
		}
	}
	for i := range max(0, len(text)-shortestSecret) {
		for _, secret := range p.starts[text[i:i+shortestSecret]] {
			if strings.HasPrefix(text[i:], secret) {
				found = append(found, text[max(0, i-60):i+len(secret)])
			}
		}
	}
	return found
}
