// SPDX-License-Identifier: Apache-2.0

// Command wheel packs finished binaries for pip and uv, one wheel each:
//
//	SOURCE_DATE_EPOCH=… go run ./packaging/wheel -version v1.2.0 -dist dist LICENSE NOTICE THIRD-PARTY.txt
//
// A wheel is an archive that pip unpacks (packaging.python.org, "Binary distribution format"). pip
// puts the files of its data/scripts into bin as executables. These wheels hold no Python code: the
// program is the one of the archives.
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// project is the name of the distribution in file names.
const project = "preflight_launch"

// platforms maps each binary of a release to pip's name of its system. The name has the glibc that
// make release requires, and the oldest macOS that Go 1.26 supports.
var platforms = []struct{ binary, tag string }{
	{"preflight-linux-amd64", "manylinux_2_28_x86_64"},
	{"preflight-linux-arm64", "manylinux_2_28_aarch64"},
	{"preflight-darwin-amd64", "macosx_12_0_x86_64"},
	{"preflight-darwin-arm64", "macosx_12_0_arm64"},
}

func main() {
	release := flag.String("version", "", "release of the binaries, as git describe prints it")
	dist := flag.String("dist", "dist", "directory of the binaries and of the wheels")
	flag.Parse()
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil || *release == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: SOURCE_DATE_EPOCH=SECONDS wheel -version VERSION -dist DIRECTORY TERMS…")
		os.Exit(2)
	}
	if err := packAll(*dist, pythonVersion(*release), time.Unix(epoch, 0).UTC(), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "wheel:", err)
		os.Exit(1)
	}
}

// packAll packs each binary that exists in dist.
func packAll(dist, version string, when time.Time, terms []string) error {
	for _, platform := range platforms {
		binary, err := os.ReadFile(filepath.Join(dist, platform.binary))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var wheel bytes.Buffer
		if err == nil {
			err = pack(&wheel, binary, version, platform.tag, when, terms)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dist, fmt.Sprintf("%s-%s-py3-none-%s.whl", project, version, platform.tag)), wheel.Bytes(), 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", platform.binary, err)
		}
	}
	return nil
}

// pack writes one wheel: the program, the terms, and the metadata.
func pack(w io.Writer, binary []byte, version, tag string, when time.Time, terms []string) error {
	archive := zip.NewWriter(w)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	info := fmt.Sprintf("%s-%s.dist-info/", project, version)
	var record bytes.Buffer
	add := func(name string, mode fs.FileMode, content []byte) error {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: when}
		header.SetMode(mode)
		file, err := archive.CreateHeader(header)
		if err == nil {
			_, err = file.Write(content)
		}
		digest := sha256.Sum256(content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(digest[:]), len(content))
		return err
	}
	if err := add(fmt.Sprintf("%s-%s.data/scripts/preflight", project, version), 0o755, binary); err != nil {
		return err
	}
	for _, path := range terms {
		text, err := os.ReadFile(path)
		if err == nil {
			err = add(info+filepath.Base(path), 0o644, text)
		}
		if err != nil {
			return err
		}
	}
	metadata := fmt.Sprintf(`Metadata-Version: 2.1
Name: preflight-launch
Version: %s
Summary: Check a multi-node training launch before you start it
License: Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/plain

preflight logs in to every node of a DeepSpeed hostfile or a Slurm job, tests what the launch
depends on, and reports in seconds which node is broken, why, and which command fixes it. It
works for deepspeed, torchrun and accelerate. The wheel contains one program and no Python code.
`, version)
	if err := add(info+"METADATA", 0o644, []byte(metadata)); err != nil {
		return err
	}
	about := fmt.Sprintf("Wheel-Version: 1.0\nGenerator: preflight\nRoot-Is-Purelib: false\nTag: py3-none-%s\n", tag)
	if err := add(info+"WHEEL", 0o644, []byte(about)); err != nil {
		return err
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	if err := add(info+"RECORD", 0o644, bytes.Clone(record.Bytes())); err != nil {
		return err
	}
	return archive.Close()
}

// described matches the output of git describe: a tag, the number of commits since, the last
// commit, and -dirty.
var described = regexp.MustCompile(`^v(\d+(?:\.\d+)*)(?:-(a|alpha|b|beta|rc|dev)\.?(\d*))?(?:-(\d+)-(g[0-9a-f]+))?(-dirty)?$`)

// notLocal matches what PEP 440 does not allow in a local version.
var notLocal = regexp.MustCompile(`[^a-z0-9]+`)

// pythonVersion returns a release as PEP 440 orders it. Commits after a tag make a post-release of
// it, and a commit without any tag comes before all releases.
func pythonVersion(release string) string {
	at := described.FindStringSubmatch(release)
	if at == nil {
		return "0+" + notLocal.ReplaceAllString(release, ".")
	}
	version, local := at[1], at[5]
	if at[2] == "dev" { // commits before the first tag
		version += ".dev" + cmp.Or(at[3], at[4], "0")
		at[4] = ""
	} else if at[2] != "" {
		version += map[byte]string{'a': "a", 'b': "b", 'r': "rc"}[at[2][0]] + at[3]
	}
	if at[4] != "" {
		version += ".post" + at[4]
	}
	if at[6] != "" && local != "" {
		local += "."
	}
	if at[6] != "" {
		local += "dirty"
	}
	if local == "" {
		return version
	}
	return version + "+" + local
}
