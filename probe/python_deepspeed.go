package probe

import (
	"os"
	"path/filepath"
	"regexp"
)

// builtOps is the line that DeepSpeed's setup.py leaves in the package, a Python
// dictionary: installed_ops={'async_io': False, 'cpu_adam': True}.
var (
	builtOps = regexp.MustCompile(`(?m)^installed_ops\s*=\s*\{(.*)\}`)
	builtOp  = regexp.MustCompile(`['"](\w+)['"]\s*:\s*(True|False)`)
)

// readOps reads which of DeepSpeed's ops came compiled with the package, from its
// directory ("" when there is none). A source tree that was never installed says
// nothing, and nothing of it is compiled.
func readOps(dir string) map[string]bool {
	text, err := os.ReadFile(filepath.Join(dir, "git_version_info_installed.py"))
	if dir == "" || err != nil {
		return nil
	}
	line := builtOps.FindSubmatch(text)
	if line == nil {
		return nil
	}
	ops := map[string]bool{}
	for _, op := range builtOp.FindAllSubmatch(line[1], -1) {
		ops[string(op[1])] = string(op[2]) == "True"
	}
	return ops
}
