package fix

// ShellWord quotes a word for a person to paste into a POSIX shell.
func ShellWord(word string) string { return Quote(word) }
