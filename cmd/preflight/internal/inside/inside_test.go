// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                     nil,
		"  ":                   nil,
		"docker exec -i train": {"docker", "exec", "-i", "train"},
		`podman exec -i 'it is' "a \"b\" c" d\ e`: {"podman", "exec", "-i", "it is", `a "b" c`, "d e"},
		`docker exec -i '$(touch x)' ';' \*`:      {"docker", "exec", "-i", "$(touch x)", ";", "*"},
		"apptainer exec --nv '/i/é 容器.sif'":       {"apptainer", "exec", "--nv", "/i/é 容器.sif"},
		"docker exec -i train-{node}":             {"docker", "exec", "-i", "train-w1"},
		"docker inspect -f '{{.Name}}'":           {"docker", "inspect", "-f", "{{.Name}}"},
		"sudo -n nsenter -t 4242 -m -p -i":        {"sudo", "-n", "nsenter", "-t", "4242", "-m", "-p", "-i"},
	} {
		words, err := Words(text)
		if diff := cmp.Diff(want, Of(words, "me@w1")); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", text, err, diff)
		}
	}
}

func TestNoWords(t *testing.T) {
	for text, want := range map[string]string{
		"docker exec -i $NAME":           "no shell expands",
		`docker exec -i "$NAME"`:         "no shell expands",
		"docker exec -i $(docker ps -q)": "no shell expands",
		"docker exec -i `docker ps -q`":  "no shell expands",
		"apptainer exec ~/i.sif":         "no shell expands",
		"apptainer exec *.sif":           "expands *.sif",
		"docker exec -i a; rm b":         "single command",
		"docker exec -i a | tee":         "a program and its arguments",
		"docker exec -i a &":             "a program and its arguments",
		"docker exec -i a >b":            "a program and its arguments",
		"A=1 docker exec -i a":           "a program and its arguments",
		"docker exec -i 'a":              "quote",
		"docker exec -i ''":              "an empty word",
		"docker exec -i 'a\nb'":          "one line of text",
		"docker exec -i {nodes}":         "unknown placeholder {nodes}",
		"docker exec -i {a,b}":           "no shell expands",
		"# docker exec":                  "single command",
	} {
		if words, err := Words(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want …%s…", text, words, err, want)
		}
	}
}
