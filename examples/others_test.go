// SPDX-License-Identifier: Apache-2.0

//go:build release

package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// These tests fetch and build third-party programs, which takes too long for make test. `make
// release-check` runs them.

// TestKubernetesTypes parses the manifests with the types of Kubernetes and of its controllers. The
// program in testdata/kubernetes does this, so that preflight itself does not depend on these
// modules.
func TestKubernetesTypes(t *testing.T) {
	list := exec.Command("go", "list", "-deps", ".")
	list.Dir = "testdata/kubernetes"
	if out, err := list.CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: Kubernetes' types over its examples, because these could not be fetched: %s", out)
	}
	program := filepath.Join(t.TempDir(), "kubernetes")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = list.Dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	manifests, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil || len(manifests) != 5 {
		t.Fatalf("%q, %v", manifests, err)
	}
	if out, err := exec.Command(program, manifests...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// The program must find these mistakes. Otherwise its silence would prove nothing.
	for slip, c := range map[string]struct{ file, right, says string }{
		"backofflimit: 0":         {"job.yaml", "backoffLimit: 0", `unknown field "spec.backofflimit"`},
		"kind: Jobs":              {"job.yaml", "kind: Job", "there is no kind batch/v1 Jobs"},
		"sizeLimit: 16Gx":         {"mpijob.yaml", "sizeLimit: 16Gi", "quantities must match"},
		"cleanPodPolicy: Walking": {"mpijob.yaml", "cleanPodPolicy: Running", `Unsupported value: "Walking"`},
		"pytorchReplicaSpec:":     {"pytorchjob.yaml", "pytorchReplicaSpecs:", `unknown field "spec.pytorchReplicaSpec"`},
		"replicatedJob:":          {"jobset.yaml", "replicatedJobs:", `unknown field "spec.replicatedJob"`},
		"sizes:":                  {"leaderworkerset.yaml", "size:", `unknown field "spec.leaderWorkerTemplate.sizes"`},
		"clusterip:":              {"jobset.yaml", "selector:", `unknown field "spec.clusterip"`},
	} {
		text, err := os.ReadFile("kubernetes/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), c.right, slip, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(program, path).CombinedOutput(); err == nil || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v\n%s", slip, err, out)
		}
	}
}

// actionlint knows the workflow syntax, the expressions, and the inputs of common actions. The
// release is pinned so that a new rule does not break the test.
const actionlint = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"

func TestActionlint(t *testing.T) {
	if out, err := exec.Command("go", "run", actionlint, "-version").CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: actionlint, because it could not be fetched: %s", out)
	}
	// A repository declares the labels of its runners in .github/actionlint.yaml.
	config := filepath.Join(t.TempDir(), "actionlint.yaml")
	if err := os.WriteFile(config, []byte("self-hosted-runner: {labels: [cluster-head]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "run", actionlint, "-config-file", config, "github-actions/preflight.yml", "../.github/workflows/release.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// hclfmt parses HCL, the language of Terraform and Packer. It does not check the names of their
// blocks.
const hclfmt = "github.com/hashicorp/hcl/v2/cmd/hclfmt@v2.24.0"

func TestHCL(t *testing.T) {
	if out, err := exec.Command("go", "run", hclfmt, "-version").CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: the language of Terraform and Packer, because its formatter could not be fetched: %s", out)
	}
	for _, file := range []string{"terraform/preflight.tf", "packer/preflight.pkr.hcl"} {
		if out, err := exec.Command("go", "run", hclfmt, "-check", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}
