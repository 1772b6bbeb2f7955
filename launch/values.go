package launch

import (
	"strconv"
	"strings"

	"preflight/hostfile"
)

// Before is [hostfile.Before]: versions of torch, NCCL and drivers are compared as
// DeepSpeed's are.
func Before(text, release string) bool { return hostfile.Before(text, release) }

// Number is what NCCL makes of a numeric variable, by strtoll with base 0
// (misc/param.cc, ncclLoadParam), and whether the text starts with a number at
// all; what follows the number does not matter to it.
func Number(text string) (value int64, isNumber bool) {
	text = strings.TrimLeft(text, " \t\n\v\f\r")
	for end := len(text); end > 0; end-- {
		if value, err := strconv.ParseInt(text[:end], 0, 64); err == nil {
			return value, true
		}
	}
	return 0, false
}
