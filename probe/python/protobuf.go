// SPDX-License-Identifier: Apache-2.0

package python

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"

	"preflight/facts"
	"preflight/internal/lazyregexp"
)

// protobufUsers maps distributions whose generated code a training script imports to their modules.
// torch is not among them, because no script imports its caffe2 part.
var protobufUsers = map[string]string{
	"googleapis-common-protos": "google",
	"mlflow":                   "mlflow",
	"onnx":                     "onnx",
	"opentelemetry-proto":      "opentelemetry",
	"ray":                      "ray",
	"sentencepiece":            "sentencepiece",
	"tensorboard":              "tensorboard",
	"tensorboardx":             "tensorboardX",
	"tensorflow":               "tensorflow",
	"transformers":             "transformers",
	"vllm":                     "vllm",
	"wandb":                    "wandb",
}

// These constants limit the scan. One protoc generates all files of a package, so the first few
// files are enough. The text to search for comes after one embedded schema at most.
const (
	maxGenerated     = 32
	maxGeneratedSize = 1 << 20
	maxWalked        = 1 << 14
)

// readProtobuf compares the installed runtime with the generated code. implementation is
// PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION.
func readProtobuf(s site, implementation string) *facts.Protobuf {
	protobuf := &facts.Protobuf{OldGenerated: []string{}, NewGenerated: []string{}, Implementation: implementation}
	if installed := s.installed["protobuf"]; len(installed) > 0 {
		protobuf.Runtime = installed[0].version
	}
	for name, module := range protobufUsers {
		installed := s.installed[name]
		if len(installed) == 0 {
			continue
		}
		var all generated
		for _, path := range generatedFiles(installed[0], module) {
			all = all.with(readGenerated(path))
		}
		if all.old {
			protobuf.OldGenerated = append(protobuf.OldGenerated, name)
		}
		if all.asksMoreThan(protobuf.Runtime) {
			protobuf.NewGenerated = append(protobuf.NewGenerated, fmt.Sprintf("%s needs %s", name, all.needs))
		}
	}
	slices.Sort(protobuf.OldGenerated)
	slices.Sort(protobuf.NewGenerated)
	return protobuf
}

// generatedFiles lists a package's _pb2.py files. For a wheel it reads RECORD. For eggs and source
// trees it walks the module.
func generatedFiles(d installedPackage, module string) []string {
	var paths []string
	add := func(path string) {
		if strings.HasSuffix(path, "_pb2.py") && !choosesAtImport(path) && len(paths) < maxGenerated {
			paths = append(paths, path)
		}
	}
	if record, err := os.Open(filepath.Join(d.metadata, "RECORD")); err == nil {
		defer record.Close()
		for lines := bufio.NewScanner(record); lines.Scan(); {
			path, _, _ := strings.Cut(lines.Text(), ",")
			add(filepath.Join(d.dir, path))
		}
		return paths
	}
	walked := 0
	// The walk itself cannot fail, because unreadable directories are skipped.
	_ = filepath.WalkDir(filepath.Join(d.dir, module), func(path string, _ fs.DirEntry, err error) error {
		if walked++; walked > maxWalked || len(paths) == maxGenerated {
			return filepath.SkipAll
		}
		if err == nil {
			add(path)
		}
		return nil
	})
	return paths
}

// generation matches a directory with code for one major version of the runtime, such as
// wandb/proto/v3 to v6.
var generation = lazyregexp.New(`/v\d+/[^/]*$`)

// choosesAtImport reports whether a package has this file for several runtimes and chooses one at
// import. Such a package has a directory for each runtime (wandb), or a second file next to the
// first (transformers, sentencepiece_model_pb2_new.py).
func choosesAtImport(path string) bool {
	if generation.MatchString(path) {
		return true
	}
	_, err := os.Stat(strings.TrimSuffix(path, ".py") + "_new.py")
	return err == nil
}

// generated says what generated code requires of the runtime.
type generated struct {
	old   bool   // the code builds descriptors itself, which runtimes from 4 on refuse
	needs string // the minimum runtime, "" if the code names none
}

func (g generated) with(other generated) generated {
	g.old = g.old || other.old
	if other.asksMoreThan(g.needs) || g.needs == "" {
		g.needs = other.needs
	}
	return g
}

// asksMoreThan reports whether the code needs a newer runtime. It returns false if either version
// is unknown.
func (g generated) asksMoreThan(runtime string) bool {
	needs, err := version.NewVersion(g.needs)
	if err != nil {
		return false
	}
	has, err := version.NewVersion(runtime)
	return err == nil && has.LessThan(needs)
}

func readGenerated(path string) generated {
	f, err := os.Open(path)
	if err != nil {
		return generated{}
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxGeneratedSize)) // a partial text is better than none
	return parseGenerated(string(text))
}

// These expressions match protoc's output by version (protobuf,
// python/google/protobuf/descriptor.py and compiler/python/generator.cc). Before 3.19 every message
// calls _descriptor.Descriptor and related functions, which the C runtimes refuse since 4.21. From
// 3.20 on the file imports the builder. From 5.26 on it states the minimum runtime.
var (
	buildsDescriptors = lazyregexp.New(`_descriptor\.(Field|Enum|EnumValue|Oneof|Service|Method)?Descriptor\(`)
	importsBuilder    = lazyregexp.New(`(?m)^from google\.protobuf\.internal import builder\b`)
	statesRuntime     = lazyregexp.New(`ValidateProtobufRuntimeVersion\(\s*[\w.]+,\s*(\d+),\s*(\d+),\s*(\d+)`)
	asksRuntime       = lazyregexp.New(`google\.protobuf\.__version__`)
)

func parseGenerated(text string) generated {
	if asksRuntime.MatchString(text) {
		return generated{} // the file has code for several runtimes and chooses by itself (mlflow)
	}
	g := generated{old: buildsDescriptors.MatchString(text)}
	if importsBuilder.MatchString(text) {
		g.needs = "3.20.0"
	}
	if match := statesRuntime.FindStringSubmatch(text); match != nil {
		g.needs = strings.Join(match[1:], ".")
	}
	return g
}
