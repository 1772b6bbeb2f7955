// SPDX-License-Identifier: Apache-2.0

// Package inside parses the command that enters a container on a node, such as docker exec -i
// train.
//
// It refuses text that needs a shell, such as $NAME, pipes and patterns. On the nodes no shell
// reads these words, and the shell of the launching machine would use that machine's values.
package inside

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/remote"
)

// Words splits a command into words as a POSIX shell does. It returns nil for "".
func Words(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	words, err := splitWords(text)
	if err == nil {
		err = remote.Enterable(words)
	}
	if err != nil {
		return nil, usage.WithHint(fmt.Errorf("%q is not a plain command: %w", text, err), "write it like --in 'docker exec -i train'; for anything that needs a shell, write a script that ends in: exec docker exec -i train \"$@\"")
	}
	return words, nil
}

// splitWords splits a simple command into words.
func splitWords(text string) (words []string, err error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if wrong, is := errors.AsType[syntax.ParseError](err); is {
		return nil, errors.New(wrong.Text)
	}
	if err != nil {
		return nil, err
	}
	if len(file.Stmts) != 1 {
		return nil, errors.New("it must be a single command")
	}
	statement := file.Stmts[0]
	call, isCall := statement.Cmd.(*syntax.CallExpr)
	if !isCall || statement.Negated || statement.Background || statement.Redirs != nil || call.Assigns != nil {
		return nil, errors.New("it must be a program and its arguments")
	}
	for _, word := range call.Args {
		if err := refuseExpansion(word.Parts); err != nil {
			return nil, err
		}
		literal, err := expand.Fields(nil, word)
		if err != nil {
			return nil, err
		}
		words = append(words, literal...)
	}
	for _, name := range placeholder.FindAllString(strings.Join(words, "\n"), -1) {
		if name != nodePlaceholder {
			return nil, fmt.Errorf("unknown placeholder %s: only %s, the node's name, is known", name, nodePlaceholder)
		}
	}
	return words, nil
}

// refuseExpansion refuses the parts of a word that only a shell can expand.
func refuseExpansion(parts []syntax.WordPart) error {
	for i, part := range parts {
		switch part := part.(type) {
		case *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if slices.ContainsFunc(part.Parts, func(p syntax.WordPart) bool { _, isText := p.(*syntax.Lit); return !isText }) {
				return errors.New("no shell expands variables and substitutions: write the value out, or put it in single quotes")
			}
		case *syntax.Lit:
			if pattern.MatchString(part.Value) || i == 0 && part.Value[0] == '~' {
				return fmt.Errorf("no shell expands %s: write it out, or put it in single quotes", part.Value)
			}
		default:
			return errors.New("no shell expands variables and substitutions: write the value out, or put it in single quotes")
		}
	}
	return nil
}

// pattern matches text that a shell would expand to file names or to several words, unless a
// backslash precedes it.
var pattern = regexp.MustCompile(`(^|[^\\])(\\\\)*([*?[]|\{[^}]*(,|\.\.))`)

// nodePlaceholder stands for the name of the node without its user.
const nodePlaceholder = "{node}"

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// Of returns the words for a node, with the node's name in place of the placeholder. It returns nil
// for nil, which means the node itself.
func Of(words []string, node string) (of []string) {
	return text.Map(words, func(word string) string { return strings.ReplaceAll(word, nodePlaceholder, hostfile.Bare(node)) })
}
