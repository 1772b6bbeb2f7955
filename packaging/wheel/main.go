// SPDX-License-Identifier: Apache-2.0

// Command wheel packs finished binaries for pip and uv, a wheel for each:
//
//	SOURCE_DATE_EPOCH=… go run ./packaging/wheel -version v1.2.0 -dist dist LICENSE NOTICE THIRD-PARTY.txt
//
// A wheel is an archive that pip unpacks (packaging.python.org, "Binary distribution
// format"): what lies in its data/scripts goes to bin, and may be run. It refuses to hold any
// python: the program is the one of the archives.
package main

import (
	"archive/zip"
	"bytes"
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

// project is the name of the distribution as it stands in file names.
const project = "preflight_launch"

// platforms are what pip calls the systems that releases are for: the glibc that make release
// holds them to, and the oldest macOS of Go 1.26.
var platforms = []struct{ binary, tag string }{
	{"preflight-linux-amd64", "manylinux_2_28_x86_64"},
	{"preflight-linux-arm64", "manylinux_2_28_aarch64"},
	{"preflight-darwin-amd64", "macosx_12_0_x86_64"},
	{"preflight-darwin-arm64", "macosx_12_0_arm64"},
}

func main() {
	release := flag.String("version", "", "the release the binaries are of, as git describe says it")
	dist := flag.String("dist", "dist", "where they lie, and the wheels go")
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

// packAll packs the binaries that are there.
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

// pack writes one wheel: the program, the terms, and what says so.
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
Summary: Tell before a distributed-training launch whether it can work
License: Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/plain

Reads a DeepSpeed hostfile, logs in to every node at once, has the nodes call each other and
meet, and says in seconds whether the launch can work: which node, which cause, which command
fixes it. The wheel holds one program, preflight, and no python.
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

// described is what git describe says: a tag, how many commits after it, which, and -dirty.
var described = regexp.MustCompile(`^v(\d+(?:\.\d+)*)(?:-(a|alpha|b|beta|rc)\.?(\d+))?(?:-(\d+)-(g[0-9a-f]+))?(-dirty)?$`)

// notLocal is what a local version of PEP 440 has no room for.
var notLocal = regexp.MustCompile(`[^a-z0-9]+`)

// pythonVersion is a release as PEP 440 orders it: what follows a tag is a post-release of it,
// and a commit without any tag comes before everything.
func pythonVersion(release string) string {
	at := described.FindStringSubmatch(release)
	if at == nil {
		return "0+" + notLocal.ReplaceAllString(release, ".")
	}
	version, local := at[1], at[5]
	if at[2] != "" {
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
