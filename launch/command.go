package launch

import "errors"

// Typed is a launch command as its own program reads it.
type Typed struct {
	// Options are everything but Hosts and Notes, which the hostfile says.
	Options
	// Hostfile is the path that will be read, "" for a program that reads none.
	// HostfileGiven is whether the command names it.
	Hostfile      string
	HostfileGiven bool
}

// Surroundings is what a program looks at beside its command line.
type Surroundings struct {
	Getenv   func(name string) string
	ReadFile func(path string) ([]byte, error)
}

// UsageError is a command line that its program refuses.
type UsageError struct {
	Program string // "deepspeed"
	Message string // what is wrong and the way out
	Said    string // what the program itself would say
}

func (e *UsageError) Error() string { return e.Program + ": " + e.Message }

// Parse reads a launch command as its program would: deepspeed, torchrun or
// accelerate, by whatever path, or python -m with the module behind one of them.
// The version is DeepSpeed's, "" for the newest. An error is, or holds, a
// [*UsageError].
func Parse(words []string, deepspeed string, around Surroundings) (Typed, error) {
	return Typed{}, errors.New("not read yet")
}
