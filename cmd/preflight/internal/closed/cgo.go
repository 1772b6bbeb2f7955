//go:build cgo

package closed

// extern int preflight_output_was_closed;
import "C"

func atStart() bool { return C.preflight_output_was_closed != 0 }
