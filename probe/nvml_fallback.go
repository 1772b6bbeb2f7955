package probe

import (
	"context"
	"errors"
	"os/exec"

	"preflight/facts"
	"preflight/probe/nvml"
)

// smiPlaces are where nvidia-smi is looked for: by PATH, which a session without
// a login shell may have shorter, then where distributions and WSL 2 put it.
var smiPlaces = []string{"nvidia-smi", "/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"}

// askInstead asks nvidia-smi where NVML could not be loaded, for the reason given.
// That neither is there is a fact, but not for a preflight that could not have
// found NVML.
func askInstead(ctx context.Context, unloaded string, places []string) (*facts.NVML, error) {
	for _, place := range places {
		path, err := exec.LookPath(place)
		if err != nil {
			continue
		}
		seen, err := askSMI(ctx, path)
		if err != nil {
			return nil, err
		}
		seen.Unloaded = unloaded
		return seen, nil
	}
	if unloaded == nvml.WithoutCgo {
		return nil, errors.New(unloaded + ", and there is no nvidia-smi to ask instead")
	}
	return &facts.NVML{
		Cards:   []facts.Card{},
		Failure: &facts.NVMLFailure{Kind: facts.FailureNoLibrary, Text: unloaded + ", and there is no nvidia-smi"},
	}, nil
}
