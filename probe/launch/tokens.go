// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"cmp"
	"path/filepath"

	"preflight/facts"
	"preflight/probe/machine"
)

// services lists the variables that hold a token of a service. If a variable is not set, the
// service's library reads one of the files, which are relative to the home directory. In a file with
// the tokens of many services, the entry begins with the text after the colon.
//
// Source: wandb 0.21, sdk/lib/wbauth and apikey.py; comet_ml,
// config.py; boto3, guide/credentials; google-auth, _cloud_sdk.py; clearml, config/defs.py; kaggle,
// api/kaggle_api_extended.py.
var services = []struct {
	variable string
	files    []string
	entry    string // text that the file must contain, "" for any text
}{
	{variable: "WANDB_API_KEY", files: []string{".netrc", "_netrc"}, entry: "wandb"},
	{variable: "COMET_API_KEY", files: []string{".comet.config"}},
	{variable: "AWS_SECRET_ACCESS_KEY", files: []string{".aws/credentials", ".aws/config"}},
	{variable: "GOOGLE_APPLICATION_CREDENTIALS", files: []string{".config/gcloud/application_default_credentials.json"}},
	{variable: "CLEARML_API_SECRET_KEY", files: []string{"clearml.conf"}},
	{variable: "KAGGLE_KEY", files: []string{".kaggle/kaggle.json", ".config/kaggle/kaggle.json"}},
	{variable: "NEPTUNE_API_TOKEN"},
	{variable: "OPENAI_API_KEY"},
	{variable: "ANTHROPIC_API_KEY"},
}

// tokenSize is the largest file with tokens that is searched for an entry, in bytes.
const tokenSize = 64 << 10

// tokens returns which of the services' tokens this session has. It returns no values.
func tokens(o machine.Options, home string) (found []facts.Token) {
	for _, s := range services {
		if o.Getenv(s.variable) != "" {
			found = append(found, facts.Token{Variable: s.variable, From: "environment"})
			continue
		}
		for _, file := range s.files {
			file = filepath.Join(cmp.Or(o.Getenv("HOME"), home), file)
			text, err := readOrdinary(o.At(file), tokenSize)
			if err == nil && len(bytes.TrimSpace(text)) > 0 && bytes.Contains(text, []byte(s.entry)) {
				found = append(found, facts.Token{Variable: s.variable, From: file})
				break
			}
		}
	}
	return found
}
