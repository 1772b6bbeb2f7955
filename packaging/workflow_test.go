// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const workflowFile = "../.github/workflows/release.yml"

// step is one step of a job. Of the steps of others, only their names and inputs are read.
type step struct {
	Name, Uses, Run, If, ID string
	Env, With               map[string]string
}

type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Needs, If   string
		Permissions map[string]string
		Steps       []step
	}
}

// standIns are the programs that the steps call and that a dry run must not. Each writes its
// arguments to $LOG. make release creates a distribution with empty packages, because make
// release-check tests the real one.
var standIns = map[string]string{
	"sudo": "", "gh": "",
	"make": `mkdir -p dist && cd dist
		for arch in amd64 arm64; do touch "preflight_$arch.deb" "preflight-$arch.rpm" "preflight-$arch-linux.whl" "preflight-$arch-macosx.whl" "preflight-linux-$arch.tar.gz" "preflight-darwin-$arch.tar.gz"; done
		touch preflight-v0.1.0.cdx.json && sha256sum preflight* >SHA256SUMS`,
}

// dryRun runs the shell steps of both jobs as a runner does (docs.github.com, "Defaults for run"),
// in a new repository with a tag, and returns the programs that the steps called. A step that fails
// ends its job, and the second job needs the first.
func dryRun(t *testing.T, flow workflow, tag string, damage func(dir string)) (called string, failed string) {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	log, outputs := filepath.Join(bin, "log"), filepath.Join(bin, "outputs")
	for name, body := range standIns {
		script(t, filepath.Join(bin, name), "#!/bin/sh\necho "+name+" \"$@\" >>\"$LOG\"\n"+body+"\n")
	}
	output(t, "cp", "-R", ".", filepath.Join(dir, "packaging"))
	if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte("# Changelog\n\n## v0.1.0\n\n- the news\n\n## v0.0.9\n\n- old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(command string, env map[string]string) (string, error) {
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LOG="+log, "GITHUB_OUTPUT="+outputs, "GITHUB_REF_NAME="+tag)
		for name, value := range env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	who := "-c user.name=a -c user.email=a@example.org"
	if out, err := run("printf 'dist/\\nnotes.md\\n' >.gitignore; git init -q . && git add . && git "+who+" commit -qm first && git "+who+" tag -am "+tag+" "+tag, nil); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"build", "publish"} {
		for _, step := range flow.Jobs[name].Steps {
			if step.Run == "" {
				continue
			}
			if name == "publish" && damage != nil {
				damage(dir)
			}
			if out, err := run(step.Run, step.Env); err != nil {
				t.Logf("%s: %v\n%s", step.Name, err, out)
				called, _ := os.ReadFile(log)
				return string(called), step.Name
			}
		}
	}
	text, err := os.ReadFile(log)
	if said, _ := os.ReadFile(outputs); err != nil || string(said) != "sbom=preflight-v0.1.0.cdx.json\n" {
		t.Errorf("the list of contents is not handed on: %q, %v", said, err)
	}
	return string(text), ""
}

// TestReleaseWorkflow checks what the workflow may do and runs its shell steps. GitHub has never run
// it: docs/tested-with.md says so.
func TestReleaseWorkflow(t *testing.T) {
	text, err := os.ReadFile(workflowFile)
	if err != nil {
		t.Fatal(err)
	}
	var flow workflow
	if err := yaml.Unmarshal(text, &flow); err != nil {
		t.Fatal(err)
	}
	build, publish := flow.Jobs["build"], flow.Jobs["publish"]
	if build.Permissions["contents"] != "read" || build.Permissions["id-token"] != "write" || build.Permissions["attestations"] != "write" ||
		publish.Permissions["contents"] != "write" || publish.Needs != "build" || publish.If != "github.ref_type == 'tag'" {
		t.Errorf("the build must not write to the repository, and only a tag publishes: %+v %+v", build, publish)
	}
	for _, want := range []string{"actions/attest-build-provenance@", "actions/attest-sbom@"} {
		if n := strings.Count(string(text), want); n != 1 {
			t.Errorf("%d steps use %s, want 1", n, want)
		}
	}

	called, failed := dryRun(t, flow, "v0.1.0", nil)
	if failed != "" {
		t.Fatalf("step %q failed", failed)
	}
	for _, want := range []string{"sudo sh testhosts/apt.sh release\n", "make release\n", "sudo sh portable/roots.sh bin/roots\n",
		"gh release create v0.1.0 --verify-tag --latest --title preflight v0.1.0 --notes-file notes.md dist/SHA256SUMS dist/preflight-amd64-linux.whl"} {
		if !strings.Contains(called, want) {
			t.Errorf("the steps do not call %q, but\n%s", want, called)
		}
	}
	if _, failed := dryRun(t, flow, "v0.2.0", nil); failed != "Require the tag to be the release of CHANGELOG.md" {
		t.Errorf("a tag that CHANGELOG.md does not have fails at %q", failed)
	}
	damage := func(dir string) { script(t, filepath.Join(dir, "dist/preflight_amd64.deb"), "another\n") }
	if called, failed := dryRun(t, flow, "v0.1.0", damage); failed != "Publish the release" || strings.Contains(called, "gh ") {
		t.Errorf("a damaged package fails at %q and calls\n%s", failed, called)
	}
}

// TestReleaseNotes requires the changelog to have notes for the release that version.sh prepares.
func TestReleaseNotes(t *testing.T) {
	if notes := output(t, "sh", "notes.sh", "v0.1.0"); !strings.Contains(notes, "\n- ") {
		t.Errorf("the notes of v0.1.0 are %.200q", notes)
	}
	if out, err := exec.Command("sh", "notes.sh", "v99").CombinedOutput(); err == nil || !strings.Contains(string(out), `no section "## v99"`) {
		t.Errorf("a release without notes: %v, %s", err, out)
	}
}

// script writes a program.
func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
