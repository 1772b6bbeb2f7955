// SPDX-License-Identifier: Apache-2.0

package python

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/testhosts/probetest"
)

func TestParseGenerated(t *testing.T) {
	tests := []struct {
		name, text string
		want       generated
	}{
		{"protoc 3.6", "DESCRIPTOR = _descriptor.FileDescriptor(\n  name='a.proto',\n)\n_A = _descriptor.Descriptor(\n  fields=[_descriptor.FieldDescriptor(", generated{old: true}},
		{"protoc 3.15 with its create_key", "_E = _descriptor.EnumDescriptor(\n  create_key=_descriptor._internal_create_key,", generated{old: true}},
		// A file with only imports and options creates no message descriptor, so it loads.
		{"protoc 3.6 without messages", "DESCRIPTOR = _descriptor.FileDescriptor(\n  name='a.proto',\n)", generated{}},
		{"protoc 3.19", "DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(b'x')\n_A = DESCRIPTOR.message_types_by_name['A']", generated{}},
		{"protoc 3.20 to 25", "from google.protobuf.internal import builder as _builder\n", generated{needs: "3.20.0"}},
		{"protoc 26 and later", "from google.protobuf.internal import builder as _builder\n_runtime_version.ValidateProtobufRuntimeVersion(\n    _runtime_version.Domain.PUBLIC,\n    5,\n    29,\n    0,\n    '',\n    'a.proto'\n)", generated{needs: "5.29.0"}},
		{"several in one file", "import google.protobuf\nif google.protobuf.__version__ > '5':\n  pass\nelse:\n  _A = _descriptor.Descriptor(", generated{}},
	}
	for _, tt := range tests {
		if got := parseGenerated(tt.text); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestReadProtobuf(t *testing.T) {
	root := probetest.Plant(t, `
-- protobuf-4.25.1.dist-info/METADATA --
-- onnx-1.20.0.dist-info/RECORD --
onnx/__init__.py,,
onnx/onnx_ml_pb2.py,sha256=x,12
onnx/onnx_data_pb2.py,sha256=x,12
onnx/gone_pb2.py,,
-- onnx/onnx_ml_pb2.py --
ValidateProtobufRuntimeVersion(PUBLIC, 5, 9, 0, '')
-- onnx/onnx_data_pb2.py --
ValidateProtobufRuntimeVersion(PUBLIC, 5, 26, 1, '')
-- onnx/unlisted_pb2.py --
_A = _descriptor.Descriptor(
-- tensorboard-2.8.0.egg-info/PKG-INFO --
Version: 2.8.0
-- tensorboard/compat/proto/event_pb2.py --
_A = _descriptor.Descriptor(
-- transformers-4.44.0.dist-info/RECORD --
transformers/utils/sentencepiece_model_pb2.py,,
transformers/utils/sentencepiece_model_pb2_new.py,,
-- transformers/utils/sentencepiece_model_pb2.py --
_A = _descriptor.Descriptor(
-- transformers/utils/sentencepiece_model_pb2_new.py --
from google.protobuf.internal import builder as _builder
-- wandb-0.18.0.dist-info/RECORD --
wandb/proto/v3/wandb_base_pb2.py,,
wandb/proto/v6/wandb_base_pb2.py,,
-- wandb/proto/v3/wandb_base_pb2.py --
_A = _descriptor.Descriptor(
-- wandb/proto/v6/wandb_base_pb2.py --
ValidateProtobufRuntimeVersion(PUBLIC, 6, 30, 0, '')
-- torch-1.13.1.dist-info/RECORD --
caffe2/proto/caffe2_pb2.py,,
-- caffe2/proto/caffe2_pb2.py --
_A = _descriptor.Descriptor(
`)
	got := readProtobuf(readSite(t.Context(), []string{root}), "python")
	want := &facts.Protobuf{
		Runtime:        "4.25.1",
		OldGenerated:   []string{"tensorboard"},
		NewGenerated:   []string{"onnx needs 5.26.1"},
		Implementation: "python",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAsksMoreThan(t *testing.T) {
	tests := []struct {
		needs, runtime string
		want           bool
	}{
		{"5.26.1", "4.25.1", true},
		{"5.26.1", "5.26.1", false},
		{"5.9.0", "5.10.0", false}, // versions are compared as numbers, not as text
		{"3.20.0", "3.20.0rc1", true},
		{"3.20.0", "", false},
		{"", "4.25.1", false},
	}
	for _, tt := range tests {
		if got := (generated{needs: tt.needs}).asksMoreThan(tt.runtime); got != tt.want {
			t.Errorf("code for %q on %q: %v, want %v", tt.needs, tt.runtime, got, tt.want)
		}
	}
}

func TestGeneratedFilesAreBounded(t *testing.T) {
	archive := "-- ray-2.0.0.dist-info/RECORD --\n"
	for i := range 3 * maxGenerated {
		archive += fmt.Sprintf("ray/core/generated/f%d_pb2.py,,\n", i)
	}
	root := probetest.Plant(t, archive)
	d := installedPackage{dir: root, metadata: filepath.Join(root, "ray-2.0.0.dist-info")}
	if got := len(generatedFiles(d, "ray")); got != maxGenerated {
		t.Errorf("%d files to read, want %d", got, maxGenerated)
	}
}
