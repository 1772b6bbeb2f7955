// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"preflight/checks"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// fixture is one case of testdata/<check-id>.txtar. The text above the arrow lists changes to a
// healthy fleet. The text below the arrow is the whole result of the check. testdata/README.md
// describes the format.
type fixture struct {
	name     string           // <check-id>/<case>
	changed  string           // the text above the arrow
	changes  map[string]any   // subject → merge patch, parsed from the text
	expected string           // the text from the arrow to the end
	nowhere  map[int][]string // number of the finding → texts that must not occur in it
}

const arrow = "=> "

func archivePath(check string) string { return filepath.Join("testdata", check+".txtar") }

func readArchive(t *testing.T, check string) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile(archivePath(check))
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// fixturesOf returns the cases of a check.
func fixturesOf(t *testing.T, check string) []fixture {
	t.Helper()
	var cases []fixture
	names := map[string]bool{}
	for _, file := range readArchive(t, check).Files {
		if names[file.Name] {
			t.Fatalf("%s has two cases %s", check, file.Name)
		}
		names[file.Name] = true
		cases = append(cases, readCase(t, check, file))
	}
	return cases
}

// ofFixtures runs a test for every fixture, in parallel by check.
func ofFixtures(t *testing.T, test func(t *testing.T, check checks.Check, c fixture)) {
	t.Parallel()
	for _, check := range Catalogue {
		t.Run(check.ID, func(t *testing.T) {
			t.Parallel()
			for _, c := range fixturesOf(t, check.ID) {
				test(t, check, c)
			}
		})
	}
}

// fixtureOf returns one case of a check by name.
func fixtureOf(t *testing.T, check, name string) fixture {
	t.Helper()
	cases := fixturesOf(t, check)
	i := slices.IndexFunc(cases, func(c fixture) bool { return c.name == check+"/"+name })
	if i < 0 {
		t.Fatalf("%s has no case %s", check, name)
	}
	return cases[i]
}

func readCase(t *testing.T, check string, file txtar.File) fixture {
	t.Helper()
	c := fixture{name: check + "/" + file.Name, changes: map[string]any{}, nowhere: map[int][]string{}}
	text, outcome, expected := strings.Cut(string(file.Data), "\n"+arrow)
	if !strings.HasPrefix(text, "# ") {
		t.Fatalf("%s does not say what it is about", c.name)
	}
	c.changed = strings.TrimRight(text, "\n") + "\n"
	if err := c.read(); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	if !expected { // a run with -update adds the result
		return c
	}
	finding := -2 // the line of the arrow is not a change
	for line := range strings.Lines(arrow + strings.TrimSpace(outcome) + "\n") {
		if !strings.HasPrefix(line, "  ") {
			finding++
		}
		c.expected += line
		if absent, found := strings.CutPrefix(line, "  nowhere: "); found {
			absent = strings.TrimSuffix(absent, "\n")
			if exact, err := strconv.Unquote(absent); err == nil {
				absent = exact
			}
			c.nowhere[finding] = append(c.nowhere[finding], absent)
		}
	}
	return c
}

// verdict returns the expected verdict of the check.
func (c fixture) verdict() checks.Verdict {
	word, _, _ := strings.Cut(strings.TrimPrefix(c.expected, arrow), "\n")
	word, _, _ = strings.Cut(word, ":")
	return checks.Verdict(word)
}

// read parses the changes. Each change has the form "SUBJECT PATH: VALUE". The subject is one or
// more nodes, "all", "head", "launch", "policy" or "not_tried". The path leads into the JSON of the
// subject. The word "baseline" before the subject means an earlier run.
func (c *fixture) read() error {
	// Unmarshal into a map first, because only maps report duplicate keys.
	if err := yaml.Unmarshal([]byte(c.changed), new(map[string]any)); err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(c.changed), &document); err != nil || document.IsZero() {
		return err
	}
	pairs := document.Content[0].Content
	for i := 0; i < len(pairs); i += 2 {
		key, changes := strings.Fields(pairs[i].Value), c.changes
		if key[0] == "baseline" {
			earlier, _ := changes["baseline"].(map[string]any)
			if earlier == nil {
				earlier = map[string]any{}
				changes["baseline"] = earlier
			}
			if key = key[1:]; len(key) == 0 {
				continue
			}
			changes = earlier
		}
		if len(key) == 1 { // such as "nodes: 8", "baseline head:" or "baseline w3: null"
			key = append(key, "")
		}
		for _, who := range key[:len(key)-1] {
			path := pathTo(who, key[len(key)-1])
			value, err := valueOf(pairs[i+1]) // each subject gets its own copy, because another line may add to it
			err = errors.Join(err, assign(changes, path, value))
			if len(path) == 3 && path[1] == "missing" { // a missing section has no facts
				err = errors.Join(err, assign(changes, []string{who, "facts", path[2]}, nil))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", pairs[i].Value, err)
			}
		}
	}
	return nil
}

// pathTo returns the path of a subject's value in the test's JSON. For a node, sections are inside
// the facts.
func pathTo(who, path string) []string {
	if path == "" {
		return []string{who}
	}
	steps := strings.Split(path, ".")
	notNodes := []string{"launch", "policy", "not_tried"}
	if !slices.Contains(notNodes, who) && slices.Contains(sections, facts.Section(steps[0])) {
		steps = append([]string{"facts"}, steps...)
	}
	return append([]string{who}, steps...)
}

// assign sets a value in a tree. An object is merged with the existing one.
func assign(tree map[string]any, path []string, value any) error {
	for last := len(path) - 1; last > 0; last-- {
		value = map[string]any{path[last]: value}
	}
	old, given := tree[path[0]]
	if !given {
		tree[path[0]] = value
		return nil
	}
	before, isTree := old.(map[string]any)
	more, adds := value.(map[string]any)
	if !isTree || !adds {
		return fmt.Errorf("%s is %v already", path[0], old)
	}
	for step, value := range more {
		if err := assign(before, []string{step}, value); err != nil {
			return err
		}
	}
	return nil
}

// valueOf converts a YAML value to the types of JSON. Keys become text, and sizes such as 64 MiB
// become numbers.
func valueOf(node *yaml.Node) (any, error) {
	switch node.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i < len(node.Content); i += 2 {
			value, err := valueOf(node.Content[i+1])
			if err != nil {
				return nil, err
			}
			object[node.Content[i].Value] = value
		}
		return object, nil
	case yaml.SequenceNode:
		list := []any{}
		for _, entry := range node.Content {
			value, err := valueOf(entry)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	}
	if node.Style == 0 && strings.HasSuffix(node.Value, "iB") {
		if size, err := humanize.ParseBytes(node.Value); err == nil {
			return size, nil
		}
	}
	var value any
	err := node.Decode(&value)
	return value, err
}

// build returns the fleet and the policy of the fixture.
func (c fixture) build(t *testing.T) (fleettest.Fleet, checks.Policy) {
	t.Helper()
	changes := maps.Clone(c.changes)
	fleet, policy := healthy(changes, 4), checks.DefaultPolicy()
	fleet.Nodes = changedNodes(t, fleet.Nodes, changes)
	if patch, given := take(changes, "head"); given {
		head := patched(t, *fleet.Head, patch)
		fleet.Head = &head
	}
	if patch, given := take(changes, "not_tried"); given {
		fleet.NotTried = patched(t, fleet.NotTried, patch)
	}
	if patch, given := take(changes, "launch"); given {
		fleet.Launch = patched(t, fleet.Launch, patch)
	}
	if patch, given := take(changes, "policy"); given {
		policy = patched(t, policy, patch)
	}
	if earlier, given := take(changes, "baseline"); given {
		policy.Baseline = baselineOf(t, maps.Clone(earlier.(map[string]any)), len(fleet.Nodes))
	}
	for who := range changes {
		t.Fatalf("the fleet has no node %s", who)
	}
	return fleet, policy
}

// baselineOf returns an earlier run over a healthy fleet. It includes the launching machine only if
// the changes name it.
func baselineOf(t *testing.T, changes map[string]any, size int) *checks.Baseline {
	t.Helper()
	then := healthy(changes, size)
	earlier := &checks.Baseline{File: "golden.json", Nodes: changedNodes(t, then.Nodes, changes)}
	if patch, given := take(changes, "head"); given {
		head := patched(t, *then.Head, patch)
		earlier.Head = &head
	}
	if patch, given := take(changes, "not_tried"); given {
		earlier.NotTried = patched(t, earlier.NotTried, patch)
	}
	for who := range changes {
		t.Fatalf("the baseline has no node %s", who)
	}
	return earlier
}

// take removes the patch of a subject from the changes and returns the patch.
func take(changes map[string]any, who string) (any, bool) {
	patch, given := changes[who]
	delete(changes, who)
	return patch, given
}

// healthy returns the unchanged fleet. Its number of nodes and its GPU vendor come from the
// changes.
func healthy(changes map[string]any, size int) fleettest.Fleet {
	if given, is := take(changes, "nodes"); is {
		size = given.(int)
	}
	if maker, given := take(changes, "maker"); given && maker == "AMD" {
		return fleettest.HealthyAMD(size)
	}
	return fleettest.Healthy(size)
}

// changedNodes applies the changes for all nodes, then the changes for single nodes. null removes a
// node.
func changedNodes(t *testing.T, healthy []facts.Node, changes map[string]any) []facts.Node {
	t.Helper()
	var nodes []facts.Node
	ofAll, _ := take(changes, "all")
	for _, node := range healthy {
		patch, given := take(changes, node.Name)
		if given && patch == nil {
			continue
		}
		node = changedNode(t, node, ofAll)
		nodes = append(nodes, changedNode(t, node, patch))
	}
	return nodes
}

// changedNode returns a node with a patch applied. The key "unreached" sets the ssh section of a
// node that has no other section.
func changedNode(t *testing.T, node facts.Node, patch any) facts.Node {
	t.Helper()
	changes, _ := patch.(map[string]any)
	if changes == nil {
		return node
	}
	changes = maps.Clone(changes)
	ssh, unreached := take(changes, "unreached")
	if seen, _ := take(changes, "facts"); seen != nil {
		node.Facts = changedFacts(t, node.Facts, seen.(map[string]any))
	}
	if unreached {
		node.Address = ""
	}
	if len(changes) > 0 {
		node = patched(t, node, changes)
	}
	if unreached {
		var seen facts.SSH
		if !node.Reached { // the changes for all nodes have made the node unreached
			seen = *node.SSH
		}
		seen = patched(t, seen, ssh)
		node.Reached, node.Facts = false, facts.Facts{SSH: &seen}
	}
	return node
}

// changedFacts converts only the changed sections through JSON. If it converted all 20 KB of each
// node, the tests would take twice as long.
func changedFacts(t *testing.T, seen facts.Facts, changes map[string]any) facts.Facts {
	t.Helper()
	var part facts.Facts
	for section := range changes {
		part.Take(facts.Section(section), seen)
	}
	part = patched(t, part, changes)
	for section := range changes {
		seen.Take(facts.Section(section), part)
	}
	return seen
}

// patched applies a merge patch to a value through its JSON. Unknown keys are errors, because they
// are spelling mistakes.
func patched[T any](t *testing.T, value T, patch any) T {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	exact := json.NewDecoder(bytes.NewReader(text))
	exact.UseNumber() // keeps sizes beyond 2^53 exact
	if err := exact.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(mergePatch(tree, patch)); err != nil {
		t.Fatal(err)
	}
	var result T
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&result); err != nil {
		t.Fatalf("patch %v: %v", patch, err)
	}
	return result
}

// mergePatch is MergePatch of RFC 7396, section 2, with one addition. An object patches a list by
// index, so that a test can change one of eight GPUs.
func mergePatch(target, patch any) any {
	changes, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	if list, isList := target.([]any); isList {
		return patchedList(list, changes)
	}
	object, _ := target.(map[string]any)
	object = maps.Clone(object)
	if object == nil {
		object = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(object, name)
			continue
		}
		object[name] = mergePatch(object[name], change)
	}
	return object
}

// patchedList patches the entries of a list by index. The key "*" applies to all entries, and comes
// first. null removes an entry, and the index after the last entry adds one.
func patchedList(list []any, changes map[string]any) []any {
	var result []any
	for i, entry := range list {
		keep := true
		for _, key := range []string{"*", strconv.Itoa(i)} {
			if change, given := changes[key]; given {
				entry, keep = mergePatch(entry, change), change != nil
			}
		}
		if keep {
			result = append(result, entry)
		}
	}
	for i := len(list); ; i++ {
		entry := changes[strconv.Itoa(i)]
		if entry == nil {
			return result
		}
		result = append(result, entry)
	}
}
