// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight/cmd/preflight/internal/policyfile"
	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/internal/text"
)

// allowed describes the allowed values of each kind of setting. The kinds have pflag's names.
var allowed = map[string]string{
	"bool":        "true or false",
	"int":         "a whole number",
	"int64":       "a whole number",
	"float64":     "a number",
	"duration":    "a duration like 30s or 2m",
	"string":      "text",
	"stringSlice": "a list of texts",
	"stringArray": "a list of texts",
}

// ofKind returns an error if a text is not a value of the kind. It refuses numbers with a leading
// zero, because viper reads 0022 as the octal number 18.
func ofKind(kind, text string) error {
	var err error
	switch kind {
	case "bool":
		_, err = strconv.ParseBool(text)
	case "int", "int64":
		var number int64
		if number, err = strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(number, 10) != text {
			err = strconv.ErrSyntax
		}
	case "float64":
		_, err = strconv.ParseFloat(text, 64)
	case "duration":
		_, err = time.ParseDuration(text)
	}
	if err == nil {
		return nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && kind == "duration" {
		return fmt.Errorf("%s has no unit: write %ss", text, text)
	}
	return fmt.Errorf("%q is not %s", text, allowed[kind])
}

// flagError rewords pflag's error for a wrong value. For an unknown flag, it suggests a known one.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return fmt.Errorf("%w%s", err, text.DidYouMean(flagMeant(cmd, unknown)))
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := invalid.GetFlag()
		if twice, is := errors.AsType[*givenTwiceError](err); is {
			return usage.WithHint(fmt.Errorf("%s is %w", spelled(flag), twice), "put all nodes into one hostfile, or name them all with one -w")
		}
		if err := ofKind(flag.Value.Type(), invalid.GetValue()); err != nil {
			return fmt.Errorf("--%s: %w", flag.Name, err)
		}
	}
	return err
}

// flagMeant returns the flag that the user likely meant, "" if none is near. pflag reads a long
// name with one hyphen as several short flags.
func flagMeant(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	var names []string
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		flags.VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden {
				names = append(names, "--"+flag.Name)
			}
		})
	}
	word := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
	if word, _, _ = strings.Cut(word, "="); len(word) < 2 {
		return ""
	}
	return text.Meant("--"+word, names)
}

// formatsKey is the annotation of --format with the formats of its command.
const formatsKey = "preflight_formats"

// knownFormat refuses a format that the command does not print. It runs when the command starts and
// not while the flags are parsed, because the shell also completes lines with an unfinished format.
func knownFormat(cmd *cobra.Command, _ []string) error {
	flag := cmd.Flags().Lookup("format")
	if flag == nil {
		return nil
	}
	if err := usage.Among(flag.Value.String(), flag.Annotations[formatsKey]); err != nil {
		return fmt.Errorf("--format: %w", err)
	}
	return nil
}

// notEmpty refuses an empty value, which an unset shell variable produces. With an empty value,
// preflight would check another launch, or use no baseline.
func notEmpty(wayOut string) func(string) error {
	return func(text string) error {
		if strings.TrimSpace(text) == "" {
			return errors.New("must not be empty: " + wayOut)
		}
		return nil
	}
}

// accelerator checks the value of --accelerator. For "gpu" it suggests cuda, although "cpu" is more
// similar.
func accelerator(name string) error {
	if name == "gpu" {
		return fmt.Errorf("%q is not one of %s%s", name, strings.Join(accelerators, ", "), text.DidYouMean("cuda"))
	}
	return usage.Among(name, accelerators)
}

func port(text string) error {
	if number, err := strconv.Atoi(text); err != nil || number < 1 || number > 65535 {
		return fmt.Errorf("%s is not a TCP port", text)
	}
	return nil
}

// portOrDefault also allows 0, which means the port from ssh's configuration.
func portOrDefault(text string) error {
	if text == "0" {
		return nil
	}
	return port(text)
}

func absolute(path string) error {
	if path == "" || filepath.IsAbs(path) {
		return nil
	}
	return usage.WithHint(fmt.Errorf("%q is not an absolute path", path), "every node runs this path: --python \"$(command -v %s)\"", path)
}

func absolutePath(path string) error {
	if filepath.IsAbs(path) {
		return nil
	}
	return fmt.Errorf("%q is not an absolute path", path)
}

func release(text string) error {
	if _, err := version.NewVersion(text); text != "" && err != nil {
		return fmt.Errorf("%q is not a version: write it like 0.15.2", text)
	}
	return nil
}

func atLeast(least time.Duration) func(string) error {
	return func(text string) error {
		if limit, err := time.ParseDuration(text); err != nil || limit < least {
			return fmt.Errorf("must be at least %s: %s", least, text)
		}
		return nil
	}
}

// check refuses a text that is neither a check nor a pattern that matches one.
func check(pattern string) error {
	if len(policyfile.ChecksNamed(pattern)) == 0 {
		return usage.WithHint(errors.New(policyfile.NoCheck(pattern)), "preflight checks lists the checks")
	}
	return nil
}

// readable refuses a text that the function read cannot read.
func readable[Value any](read func(string) (Value, error)) func(string) error {
	return func(text string) error {
		_, err := read(text)
		return err
	}
}

func share(text string) error {
	if part, err := strconv.ParseFloat(text, 64); err != nil || !(part >= 0 && part <= 1) { // this condition also refuses NaN
		return fmt.Errorf("must be between 0 and 1: %s", text)
	}
	return nil
}

func notBelowZero(text string) error {
	if strings.HasPrefix(text, "-") {
		return fmt.Errorf("must not be negative: %s", text)
	}
	return nil
}

const (
	// mostLookups is the maximum number of names in -w that are looked up to find misspelt names.
	mostLookups = 16
	// lookupPatience is the time limit for all lookups together.
	lookupPatience = 2 * time.Second
)

// typos returns the nodes of -w that have no address and whose name is similar to a known name. It
// maps each to that name.
func typos(ctx context.Context, hosts []hostfile.Host) map[string]string {
	known := knownNames()
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	lookups, meant := 0, map[string]string{}
	for _, host := range hosts {
		name := hostfile.Bare(host.Name)
		near := hostfile.Near(name, known)
		if slices.Contains(known, name) || near == "" || lookups == mostLookups {
			continue
		}
		lookups++
		if _, err := net.DefaultResolver.LookupHost(ctx, name); err != nil {
			meant[host.Name] = strings.TrimSuffix(host.Name, name) + near
		}
	}
	return meant
}

// knownNames returns the host names in the nearest hostfile, in the user's ssh configuration and
// known_hosts, and in /etc/hosts. Hashed names in known_hosts cannot be read.
func knownNames() (names []string) {
	hosts, _, _ := hostfile.ReadFile(nearestHostfile(), "") // nil if the hostfile has errors
	for _, host := range hosts {
		names = append(names, hostfile.Bare(host.Name))
	}
	home, _ := os.UserHomeDir() // "" finds no file
	for file, namesOf := range map[string]func(words []string) []string{
		"/etc/hosts": func(words []string) []string { return words[1:] },
		filepath.Join(home, ".ssh", "known_hosts"): func(words []string) []string {
			return strings.Split(words[0], ",")
		},
		filepath.Join(home, ".ssh", "config"): func(words []string) []string {
			if strings.EqualFold(words[0], "Host") {
				return words[1:]
			}
			return nil
		},
	} {
		content, _ := os.ReadFile(file)
		for line := range strings.Lines(string(content)) {
			line, _, _ = strings.Cut(line, "#")
			if words := strings.Fields(line); len(words) > 0 {
				for _, name := range namesOf(words) {
					if !strings.ContainsAny(name, "*?!|[@") {
						names = append(names, name)
					}
				}
			}
		}
	}
	return names
}
