package launch

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/hostfile"
)

// object is a JSON object in the order of the file. Its values are nil, bool,
// int, float64, string, []any and *object.
type object struct {
	names  []string
	values map[string]any
}

func (o *object) has(name string) bool {
	_, has := o.values[name]
	return has
}

// object is the object below a name, nil when there is none.
func (o *object) object(name string) *object {
	below, _ := o.values[name].(*object)
	return below
}

// parseConfig reads the file as far as a dictionary: Hjson since 0.8.1, which is
// JSON with comments, without commas at line ends and with few quotes; before,
// JSON proper. Keys that are there twice are refused.
//
// Source: deepspeed/runtime/config.py, DeepSpeedConfig.__init__; config_utils.py,
// dict_raise_error_on_duplicate_keys; hjson 3.1.0, decoder.py.
func parseConfig(text, release string) (*object, *ConfigProblem) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if hostfile.Before(release, "0.8.1") && !json.Valid([]byte(text)) {
		return nil, &ConfigProblem{Fatal: true, Said: "json.decoder.JSONDecodeError",
			Message: "the file is no JSON, and DeepSpeed reads Hjson (comments, a comma too many) from 0.8.1 on only: look with `python3 -m json.tool FILE`"}
	}
	reader := &hjsonReader{text: []rune(strings.TrimPrefix(text, "\ufeff"))}
	value, err := reader.attempt(reader.document)
	if err != nil {
		return nil, &ConfigProblem{Fatal: true, Said: err.Error(), Message: "the file cannot be read: " + strings.TrimPrefix(err.Error(), "hjson.scanner.HjsonDecodeError: ")}
	}
	root, isObject := value.(*object)
	if !isObject {
		return nil, &ConfigProblem{Fatal: true, Said: fmt.Sprintf("AttributeError: '%s' object has no attribute 'get'", pythonType(value)),
			Message: "the file holds no object: write { … } around the settings"}
	}
	return root, nil
}

// hjsonReader is the decoder of the Python package hjson, message for message.
type hjsonReader struct {
	text []rune
	at   int
}

type hjsonError string

func (e hjsonError) Error() string { return string(e) }

// fail gives up at a position; what it throws, attempt catches.
func (r *hjsonReader) fail(at int, message string) {
	line, column := r.place(at)
	panic(hjsonError(fmt.Sprintf("hjson.scanner.HjsonDecodeError: %s: line %d column %d (char %d)", message, line, column, at)))
}

// place is a position as an editor counts it.
func (r *hjsonReader) place(at int) (line, column int) {
	line, column = 1, at+1
	for i, c := range r.text[:at] {
		if c == '\n' {
			line, column = line+1, at-i
		}
	}
	return line, column
}

// attempt reads something and turns its failure into an error.
func (r *hjsonReader) attempt(read func() any) (value any, err error) {
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case hjsonError:
			err = failure
		default:
			panic(failure)
		}
	}()
	return read(), nil
}

// eof is what follows the last character.
const eof rune = -1

// peek is the character some way ahead.
func (r *hjsonReader) peek(ahead int) rune {
	if r.at+ahead < len(r.text) {
		return r.text[r.at+ahead]
	}
	return eof
}

// document is the whole file: an object, whose braces may be left out, a list or
// a single value.
func (r *hjsonReader) document() any {
	var value any
	switch r.skip() {
	case eof:
		return &object{values: map[string]any{}}
	case '{', '[':
		value = r.value()
	default:
		value = r.unbraced()
	}
	if r.skip(); r.at < len(r.text) {
		line, column := r.place(r.at)
		endLine, endColumn := r.place(len(r.text))
		panic(hjsonError(fmt.Sprintf("hjson.scanner.HjsonDecodeError: Extra data: line %d column %d - line %d column %d (char %d - %d)",
			line, column, endLine, endColumn, r.at, len(r.text))))
	}
	return value
}

// unbraced is an object without braces or else a single value; what is wrong with
// both is told of the object.
func (r *hjsonReader) unbraced() any {
	start := r.at
	value, err := r.attempt(func() any { return r.object(false) })
	if err == nil {
		return value
	}
	r.at = start
	if value, noValue := r.attempt(r.value); noValue == nil {
		return value
	}
	panic(err)
}

// skip goes to the next character that is neither blank nor comment.
func (r *hjsonReader) skip() rune {
	for {
		switch c := r.peek(0); {
		case strings.ContainsRune(" \t\n\r", c):
			r.at++
		case c == '#', c == '/' && r.peek(1) == '/':
			for r.peek(0) != '\n' && r.peek(0) != eof {
				r.at++
			}
		case c == '/' && r.peek(1) == '*':
			for r.at += 2; r.peek(0) != '*' || r.peek(1) != '/'; r.at++ {
				if r.at >= len(r.text) {
					panic(hjsonError("IndexError: string index out of range"))
				}
			}
			r.at += 2
		default:
			return c
		}
	}
}

func (r *hjsonReader) value() any {
	switch c := r.peek(0); {
	case r.at >= len(r.text):
		r.fail(r.at, "Expecting value")
	case c == '\'' && r.peek(1) == '\'' && r.peek(2) == '\'':
		return r.lines()
	case c == '"' || c == '\'':
		return r.quoted()
	case c == '{':
		r.at++
		return r.object(true)
	case c == '[':
		r.at++
		return r.list()
	}
	return r.bare()
}

func (r *hjsonReader) object(braces bool) *object {
	made := &object{values: map[string]any{}}
	var all []string
	next := r.skip()
	for !braces || next != '}' {
		name := r.name()
		if r.skip() != ':' {
			r.fail(r.at, "Expecting ':' delimiter")
		}
		r.at++
		r.skip()
		value := r.value()
		if all = append(all, name); !made.has(name) {
			made.names = append(made.names, name)
		}
		made.values[name] = value
		if next = r.skip(); next == ',' {
			r.at++
			next = r.skip()
		}
		if !braces && next == eof {
			break
		}
	}
	if braces {
		r.at++
	}
	refuseTwins(all)
	return made
}

func refuseTwins(all []string) {
	var twins []string
	for i, name := range all {
		if slices.Contains(all[i+1:], name) && !slices.Contains(twins, name) {
			twins = append(twins, name)
		}
	}
	if twins != nil {
		panic(hjsonError("ValueError: Duplicate keys in DeepSpeed config: " + pythonRepr(twins)))
	}
}

func (r *hjsonReader) list() []any {
	made := []any{}
	next := r.skip()
	if next == eof {
		r.fail(r.at, "End of input while parsing an array (did you forget a closing ']'?)")
	}
	for next != ']' {
		made = append(made, r.value())
		if next = r.skip(); next == ',' {
			r.at++
			next = r.skip()
		}
	}
	r.at++
	return made
}

// name is a key, quoted or not.
func (r *hjsonReader) name() string {
	if c := r.skip(); c == '"' || c == '\'' {
		return r.quoted()
	}
	begin, space := r.at, -1
	for ; ; r.at++ {
		switch c := r.peek(0); {
		case c == eof:
			r.fail(r.at, "Bad key name (eof)")
		case c == ':':
			if begin == r.at {
				r.fail(begin, "Found ':' but no key name (for an empty key name use quotes)")
			}
			if space >= 0 && space != r.at-1 {
				r.fail(space, "Found whitespace in your key name (use quotes to include)")
			}
			return strings.TrimSpace(string(r.text[begin:r.at]))
		case strings.ContainsRune(" \t\n\r", c):
			if space < 0 || space == r.at-1 {
				space = r.at
			}
		case strings.ContainsRune("{}[],", c):
			r.fail(begin, fmt.Sprintf("Found '%c' where a key name was expected (check your syntax or use quotes if the key name includes {}[],: or whitespace)", c))
		}
	}
}

// hjsonNumber is a number with the blanks around it.
var hjsonNumber = regexp.MustCompile(`^[\t ]*(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?[\t ]*$`)

// bare is a value without quotes: a number or a word of JSON up to a comma, a
// bracket or a comment, else everything up to the end of the line. So a comma
// that is missing makes one text of two settings.
func (r *hjsonReader) bare() any {
	first := r.peek(0)
	if first == eof || strings.ContainsRune("{}[],:", first) {
		r.fail(r.at, "Found a punctuator character when expecting a quoteless string (check your syntax)")
	}
	rest := r.text[r.at:]
	end := wordEnd(rest)
	word := string(rest[:end])
	r.at += end
	switch strings.TrimSpace(word) {
	case "null":
		return nil
	case "true":
		return true
	case "false":
		return false
	}
	if parts := hjsonNumber.FindStringSubmatch(word); parts != nil {
		return pythonNumber(parts[1], parts[2]+parts[3])
	}
	for r.peek(0) != '\n' && r.peek(0) != eof {
		r.at++
		end++
	}
	return strings.TrimSpace(string(rest[:end]))
}

// wordEnd is where a word of JSON would end.
func wordEnd(text []rune) int {
	for i, c := range text {
		if strings.ContainsRune(",}]#\n", c) || c == '/' && i+1 < len(text) && (text[i+1] == '/' || text[i+1] == '*') {
			return i
		}
	}
	return len(text)
}

// pythonNumber is an int where it can be one: 5e8 is 500000000.
func pythonNumber(whole, rest string) any {
	if rest == "" {
		if n, err := strconv.Atoi(whole); err == nil {
			return n
		}
	}
	f, _ := strconv.ParseFloat(whole+rest, 64)
	if f == math.Trunc(f) && math.Abs(f) < 1e10 {
		return int(f)
	}
	return f
}
