// SPDX-License-Identifier: Apache-2.0

package python

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"preflight/internal/lazyregexp"
)

// interesting lists the packages whose version can decide whether a launch works. A name that ends
// in "-" stands for all names with that prefix.
var interesting = []string{
	"accelerate", "apex", "bitsandbytes", "causal-conv1d", "colossalai", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x",
	"datasets", "deepspeed", "deepspeed-kernels", "diffusers", "einops", "fairscale", "flash-attn", "flash-attn-3",
	"flashinfer-python", "googleapis-common-protos", "grpcio", "hjson", "horovod", "huggingface-hub", "jax", "jaxlib", "lightning",
	"mamba-ssm", "megatron-core", "mlflow", "mpi4py", "msgpack", "ninja", "numpy", "nvidia-", "onnx", "onnxruntime", "onnxruntime-gpu",
	"opentelemetry-proto", "optimum", "packaging", "peft", "protobuf", "psutil", "py-cpuinfo", "pydantic", "pydantic-core",
	"pynvml", "pytorch-lightning", "pytorch-triton", "ray", "safetensors", "scipy", "sentencepiece", "setuptools", "tensorboard",
	"tensorboardx", "tensorflow", "tokenizers", "torch", "torchao", "torchaudio", "torchdata", "torchtune", "torchvision", "tqdm",
	"transformer-engine", "transformer-engine-", "transformers", "triton", "trl", "vllm", "wandb", "xformers",
}

// launched lists the packages that a launch imports. For each of them, a module has the same name.
// pip considers a package installed if it has metadata, but metadata alone cannot be imported. An
// interrupted copy or removal may leave only the metadata.
var launched = []string{"accelerate", "deepspeed", "mpi4py", "torch"}

// isAmong reports whether a list such as interesting has a name.
func isAmong(list []string, name string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return name == entry || strings.HasSuffix(entry, "-") && strings.HasPrefix(name, entry)
	})
}

// maxEntries limits how many names of one directory are read. The working directory is on sys.path
// too, and may contain a data set.
const maxEntries = 1 << 16

// installedPackage is one installed package according to its metadata.
type installedPackage struct {
	version  string
	dir      string // the directory in sys.path that contains the package
	metadata string // the package's .dist-info or .egg-info, a directory or a file
}

// site holds the interesting packages in the directories of sys.path, by normalised name and in
// import order.
type site struct {
	dirs      []string
	installed map[string][]installedPackage
	// editable maps top-level modules of `pip install -e` to their source directories. It covers
	// installs that hook the import system and do not extend sys.path.
	editable map[string]string
	// bare lists the packages in launched that have only metadata.
	bare []string
}

// readSite lists each entry of sys.path once. It opens a metadata file only if the directory's name
// has no version. A missing entry or a zip file is normal, and contributes no packages.
func readSite(ctx context.Context, sysPath []string) site {
	s := site{installed: map[string][]installedPackage{}, editable: map[string]string{}, bare: []string{}}
	seen := map[string]bool{}
	for _, dir := range sysPath {
		real, err := filepath.EvalSymlinks(dir) // lib64 is often a link to lib
		if err != nil || seen[real] || ctx.Err() != nil {
			continue
		}
		seen[real] = true
		s.dirs = append(s.dirs, dir)
		for _, entry := range entriesOf(dir) {
			s.add(dir, entry)
		}
	}
	for _, name := range launched {
		if s.installed[name] != nil && s.find(name, "__init__.py") == "" {
			delete(s.installed, name)
			s.bare = append(s.bare, name)
		}
	}
	return s
}

// entriesOf lists a directory in a fixed order.
func entriesOf(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.Readdirnames(maxEntries) // a partial list is better than none
	slices.Sort(entries)
	return entries
}

func (s site) add(dir, entry string) {
	if strings.HasPrefix(entry, "__editable___") && strings.HasSuffix(entry, "_finder.py") {
		readEditable(filepath.Join(dir, entry), s.editable)
		return
	}
	name, version, ok := parseDistribution(entry)
	if !ok || !isAmong(interesting, name) {
		return
	}
	path := filepath.Join(dir, entry)
	if version == "" {
		if version = readHeader(path, "Version"); version == "" {
			return // an uninstall has left this
		}
	}
	s.installed[name] = append(s.installed[name], installedPackage{version, dir, path})
}

// eggTags matches the text after the version in an .egg-info name: the Python version and, for
// binary eggs, the platform.
var eggTags = lazyregexp.New(`-py\d+(\.\d+)?(-.*)?$`)

// parseDistribution parses the name of a metadata directory: "torch-2.5.1+cu124.dist-info",
// "foo_bar-1.0-py3.11.egg-info", or "foo.egg-info" without a version. setup.py develop leaves the
// last form in a source tree.
func parseDistribution(entry string) (name, version string, ok bool) {
	stem, isWheel := strings.CutSuffix(entry, ".dist-info")
	if !isWheel {
		if stem, ok = strings.CutSuffix(entry, ".egg-info"); !ok {
			return "", "", false
		}
		stem = eggTags.ReplaceAllString(stem, "")
	}
	// Versions contain no dash here, because both formats write a dash as "_".
	name = stem
	if at := strings.LastIndex(stem, "-"); at >= 0 {
		name, version = stem[:at], stem[at+1:]
	}
	return normalise(name), version, name != ""
}

var separators = lazyregexp.New(`[-_.]+`)

// normalise returns the normalised spelling of a package name (PEP 503).
func normalise(name string) string {
	return strings.ToLower(separators.ReplaceAllString(name, "-"))
}

// headers calls each with every header of a distribution's metadata, until each returns false. It
// does not read the description after the headers.
func headers(metadata string, each func(key, value string) bool) {
	f, err := os.Open(metadata)
	for _, name := range []string{"METADATA", "PKG-INFO"} {
		if inside, inErr := os.Open(filepath.Join(metadata, name)); inErr == nil {
			if err == nil {
				f.Close()
			}
			f, err = inside, nil
			break
		}
	}
	if err != nil {
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, 1<<20))
	for lines.Scan() && lines.Text() != "" {
		key, value, found := strings.Cut(lines.Text(), ": ")
		if found && !each(key, value) {
			return
		}
	}
}

func readHeader(metadata, key string) (value string) {
	headers(metadata, func(k, v string) bool {
		if k == key {
			value = v
		}
		return value == ""
	})
	return value
}

// mapping matches one entry of the dictionary MAPPING in the finder of an editable install, which
// setuptools writes: {'deepspeed': '/src/DeepSpeed/deepspeed'}.
var mapping = lazyregexp.New(`'([\w.]+)': '([^']+)'`)

func readEditable(path string, into map[string]string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "MAPPING") {
			continue
		}
		for _, entry := range mapping.FindAllStringSubmatch(line, -1) {
			into[entry[1]] = entry[2]
		}
		return
	}
}

// find returns the directory of the module that an import would use, or "" if there is none. It
// recognises the module by one of its files. The hook of an editable install comes after sys.path,
// because setuptools appends its finder.
func (s site) find(module, file string) string {
	var candidates []string
	for _, dir := range s.dirs {
		candidates = append(candidates, filepath.Join(dir, module))
	}
	if dir := s.editable[module]; dir != "" {
		candidates = append(candidates, dir)
	}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return dir
		}
	}
	return ""
}

// versions returns the distributions that an import would use, in the same way as
// importlib.metadata finds them.
func (s site) versions() map[string]string {
	versions := map[string]string{}
	for name, found := range s.installed {
		versions[name] = found[0].version
	}
	return versions
}

// shadowed lists packages that are installed more than once. An interrupted upgrade leaves two
// versions in one directory.
func (s site) shadowed() []string {
	var lines []string
	for name, found := range s.installed {
		for _, hidden := range found[1:] {
			lines = append(lines, fmt.Sprintf("%s %s in %s hides %s in %s", name, found[0].version, found[0].dir, hidden.version, hidden.dir))
		}
	}
	slices.Sort(lines)
	return lines
}
