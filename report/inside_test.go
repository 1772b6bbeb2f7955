// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"preflight/checks"
	"preflight/facts"
)

// TestSummaryNamesTheInside checks that the summary names the containers from which facts come.
func TestSummaryNamesTheInside(t *testing.T) {
	for want, inside := range map[string][][]string{
		"2 nodes": {nil, nil},
		"2 nodes, facts from inside docker exec -i train (except those about ssh)":               {{"docker", "exec", "-i", "train"}, {"docker", "exec", "-i", "train"}},
		"2 nodes, facts from inside docker exec -i 'train-{node}' (except those about ssh)":      {{"docker", "exec", "-i", "train-w1"}, {"docker", "exec", "-i", "train-w2"}},
		"2 nodes, facts from inside podman exec -i 'it'\\''s' on w2 (except those about ssh)":    {nil, {"podman", "exec", "-i", "it's"}},
		"2 nodes, facts from inside a on w1, facts from inside b on w2 (except those about ssh)": {{"a"}, {"b"}},
	} {
		var r checks.Report
		for i, words := range inside {
			r.Nodes = append(r.Nodes, facts.Node{Name: []string{"u@w1", "w2"}[i], Reached: true, Facts: facts.Facts{SSH: &facts.SSH{Inside: words}}})
		}
		if got := WordsOf(r).Summary(); got != strings.ReplaceAll(want, "on w1", "on u@w1") {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestSummaryBeginsWithWhatTheBuildCannotSee checks line 2 of the text, and the summary of other
// formats.
func TestSummaryBeginsWithWhatTheBuildCannotSee(t *testing.T) {
	r := checks.Report{CannotSee: "this preflight cannot see GPUs"}
	r.Nodes = []facts.Node{{Name: "w1", Reached: true}}
	if got := WordsOf(r).Summary(); got != "this preflight cannot see GPUs; 1 node" {
		t.Error(got)
	}
	for _, style := range []Style{{}, {Quiet: true}, {Verbose: true}} {
		var text strings.Builder
		if err := Text(&text, r, style); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Split(text.String(), "\n"); !strings.HasPrefix(lines[1], r.CannotSee) {
			t.Errorf("%+v: line 2 is %q", style, lines[1])
		}
	}
}

// TestSummaryNamesTheContainer checks that the summary names the container that preflight entered
// in a pod.
func TestSummaryNamesTheContainer(t *testing.T) {
	for want, containers := range map[string][2]string{
		"2 nodes, over kubectl in container train":       {"train", "train"},
		"2 nodes, over kubectl in container main, train": {"main", "train"},
	} {
		var r checks.Report
		for i, name := range containers {
			r.Nodes = append(r.Nodes, facts.Node{Name: []string{"w1", "w2"}[i], Reached: true, Facts: facts.Facts{
				SSH: &facts.SSH{Carrier: "kubectl", Options: []string{"--namespace=ml", "--container=" + name}},
			}})
		}
		if got := WordsOf(r).Summary(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestSummaryNamesPyxis checks that the number of a Slurm job is not shown as a container.
func TestSummaryNamesPyxis(t *testing.T) {
	for want, options := range map[string][]string{
		"1 node, over srun": {"--jobid=118"},
		"1 node, over srun, facts from inside srun --container-image=a.sqsh": {"--jobid=118", "--container-image=a.sqsh"},
	} {
		var r checks.Report
		r.Nodes = []facts.Node{{Name: "w1", Reached: true, Facts: facts.Facts{SSH: &facts.SSH{Carrier: "srun", Options: options}}}}
		if got := WordsOf(r).Summary(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
