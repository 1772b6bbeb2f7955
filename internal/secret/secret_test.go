// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestReadable: text that readers of reports need stays unchanged.
func TestReadable(t *testing.T) {
	for _, text := range []string{
		"f1d2d2f924e986ac86fdf7b36c94bcdf32beec15",                         // a commit
		"4b1d9f2d3c6a1e0b7f8d5c4a3b2e1f0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a49", // a digest
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
		"GPU-5f0b9c2e-8d53-4c1e-9f1e-2b7a4d1c6e80", "3f2b8a90-1c4d-4e5f-8a6b-7c8d9e0f1a2b", "0x506b4b0300c4d5e6", "506b:4b03:00c4:d5e6", "fe80::1a2b:3c4d",
		"1654922006536", "MT_0000000223", "0000:4b:00.0", "cuda_12.4.r12.4/compiler.34097967_0", "py311h06a4308_0", "2.5.1+cu124", "550.90.07",
		"docker.io/nvcr/pytorch:24.07-py3@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5", "/opt/conda/envs/Llama3/lib/python3.11/site-packages/nvidia/cublas/lib/libcublasLt.so.12",
		"/home/me/.cache/huggingface/hub/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/0e9e39f249a16976918f6564b8830bc894c89659",
		"undefined symbol: _ZN3c1010TensorImpl36_SetDimsTemplate4IlEEvNS_8ArrayRefIT_EE", "_ZN4c10d16ProcessGroupNCCL8WorkNCCLD1Ev",
		"train-7d9f8b6c5d-x2x4z", "ip-10-0-12-34.us-east-2.compute.internal", "NVIDIA-H100-80GB-HBM3", "mlx5_0:1", "Meta-Llama-3.1-70B-Instruct-FP8",
		"--world_info=eyJ3MSI6IFswLCAxLCAyLCAzXSwgIncyIjogWzAsIDEsIDIsIDNdfQ==", "w1:0,1@w2:2", "me@host", "host:22", "ssh://host:22/me@x",
		"Permission denied (publickey,password).", "password: authentication failed for me", "KeyError: 'lm_head.weight'", "wandb.api_key: the newest DeepSpeed does not know it", "wandb.api_key: Extra inputs are not permitted", "host key: ED25519", "max_tokens=512",
		"no matching host key type found. Their offer: ssh-rsa", "PWD=/home/me", "NCCL_IB_PKEY=0x8001", "tokenizer: gpt2", "passed=7", "keys: 12", "-k 50", "-k https://host",
		"docker exec -u 1000:1000 x", "use --token TOKEN", "--hf-token <TOKEN>", "password=", "password: ", "token=None", "basic authentication", "Bearer authentication",
		"store->get('default_pg/0//worker/0') got error: wait timeout after 300000ms", "torch.distributed.DistStoreError", "12D3KooW", "b'8ZUJ'",
		"ncclUniqueId 0x3f2b8a901c4d4e5f", "commHash 0x1a2b3c4d5e6f7a8b", "sk-learn-intelex-for-everybody",
	} {
		if got := Hide(text); got != text {
			t.Errorf("%s\nis %s", text, got)
		}
	}
}

func TestHide(t *testing.T) {
	const dull = "hunter2"
	for text, want := range map[string]string{
		"--pat " + dull: "--pat …",
		"https://a.blob.core.windows.net/c?sv=1&sig=hunter%2B2&se=3": "https://a.blob.core.windows.net/c?sv=1&sig=…&se=3",
		`{"password": "hunter2", "a": 1}`:                            `{"password": "…", "a": 1}`,
		"Authorization: Bearer hunter2\nHost: x":                     "Authorization: …\nHost: x",
		"nc -X connect -x me:hunter2@proxy:3128 %h %p":               "nc -X connect -x …@proxy:3128 %h %p",
		"sshpass -p hunter2 ssh %h":                                  "sshpass -p … ssh %h",
		"(password=hunter2), retrying":                               "(password=…), retrying",
		"MY_PASSWORD=…$… … …%n":                                      "MY_PASSWORD=…$… … …%n",
		"url=https://me:hunter2@host/x, password=":                   "url=https://…@host/x, password=",
	} {
		if got := Hide(text); got != want {
			t.Errorf("%s\nis   %s\nwant %s", text, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	type setting struct{ Name, Value string }
	type nested struct {
		Text     string
		Pointer  *string
		List     []string
		Map      map[string]string
		Any      any
		Raw      json.RawMessage
		Settings []setting
		hidden   string
	}
	said := "token=hunter2"
	n := nested{
		Text: said, Pointer: &said, List: []string{said}, Map: map[string]string{"x": "token=hunter2", "password=hunter2": "y"}, Any: []any{"token=hunter2"},
		Raw: json.RawMessage(`{"a": "token=hunter2 \u00e9", "b": 1}`), Settings: []setting{{"WANDB_API_KEY", "hunter2"}, {"NCCL_DEBUG", "INFO"}}, hidden: "ours",
	}
	Within(&n)
	text, err := json.Marshal(n)
	if err != nil || strings.Contains(string(text), "hunter2") || n.hidden != "ours" || n.Settings[1].Value != "INFO" || n.Map["password=…"] != "y" {
		t.Errorf("%s, %v", text, err)
	}
}

// FuzzHide: for any text, hidden parts stay hidden, lines stay lines, and JSON stays JSON.
func FuzzHide(f *testing.F) {
	for _, text := range []string{`{"password": "a\"b", "c": "?sig=x&d"}`, "--token a\nb=c", "https://a:b@c/d", "-----BEGIN PRIVATE KEY-----\\nx", "Authorization: Basic a", "a:b@c d:1@e"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hidden := Hide(text)
		if again := Hide(hidden); again != hidden {
			t.Errorf("%q\nis %q\nthen %q", text, hidden, again)
		}
		if encoded := HideJSON([]byte(text)); json.Valid([]byte(text)) && !json.Valid(encoded) {
			t.Errorf("%q became %q", text, encoded)
		}
	})
}
