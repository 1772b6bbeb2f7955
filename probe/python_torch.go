package probe

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"preflight/facts"
)

// readTorch reads how torch was built from the version.py in its directory
// ("" when no such file was found) and from its metadata. Nil means that torch
// is not installed.
func readTorch(dir string, installed []installedPackage) *facts.Torch {
	if dir == "" && len(installed) == 0 {
		return nil
	}
	torch := &facts.Torch{}
	if dir != "" {
		// It was there a moment ago; should it be gone, the metadata speaks.
		text, _ := os.ReadFile(filepath.Join(dir, "version.py"))
		*torch = parseTorchVersion(string(text))
	}
	if len(installed) == 0 {
		return torch
	}
	if torch.Version == "" {
		torch.Version = installed[0].version
	}
	headers(installed[0].metadata, func(key, value string) bool {
		if key == "Requires-Dist" {
			torch.NCCLWheel = parseNCCLRequirement(value)
		}
		return torch.NCCLWheel == ""
	})
	return torch
}

// assignment is a line of torch/version.py: __version__ = '2.5.1+cu124' or
// cuda: Optional[str] = '12.4'. A None does not match.
var assignment = regexp.MustCompile(`(?m)^(__version__|cuda|hip)\s*(?::[^=]*)?=\s*['"]([^'"]*)['"]`)

func parseTorchVersion(text string) facts.Torch {
	var torch facts.Torch
	for _, match := range assignment.FindAllStringSubmatch(text, -1) {
		switch match[1] {
		case "__version__":
			torch.Version = match[2]
		case "cuda":
			torch.CUDA = match[2]
		case "hip":
			torch.HIP = match[2]
		}
	}
	return torch
}

// ncclRequirement is a Requires-Dist of torch's wheel, in both spellings that
// wheels carry: "nvidia-nccl-cu12==2.21.5; …" and "nvidia-nccl-cu12 (==2.18.1) ; …".
var ncclRequirement = regexp.MustCompile(`^nvidia-nccl-cu\d+\s*\(?==\s*([\d.]+)`)

func parseNCCLRequirement(requirement string) string {
	if match := ncclRequirement.FindStringSubmatch(strings.TrimSpace(requirement)); match != nil {
		return match[1]
	}
	return ""
}
