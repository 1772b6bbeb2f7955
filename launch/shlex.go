package launch

import "strings"

// pythonError is what Python says, in its own words.
type pythonError string

func (e pythonError) Error() string { return string(e) }

// For a text that ends too early.
const (
	errNoClosingQuotation = pythonError("No closing quotation")
	errNoEscapedCharacter = pythonError("No escaped character")
)

// SplitWords splits a text into words as Python's shlex.split does, which is how
// DeepSpeed reads --launcher_args: by blanks, with the quotes and backslashes of a
// POSIX shell, nothing expanded and no comments. The errors have Python's words.
//
// Source: CPython 3.12, Lib/shlex.py, shlex.read_token with posix and
// whitespace_split set.
func SplitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, escaped, quote := false, false, rune(0)
	for _, r := range text {
		switch {
		case escaped:
			// Between double quotes a backslash stays unless it hides one of two.
			if quote != 0 && r != '\\' && r != quote {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case strings.ContainsRune(" \t\r\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	switch {
	case escaped:
		return nil, errNoEscapedCharacter
	case quote != 0:
		return nil, errNoClosingQuotation
	case inWord:
		words = append(words, word.String())
	}
	return words, nil
}
