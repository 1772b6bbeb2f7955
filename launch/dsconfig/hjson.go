// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"preflight/hostfile"
)

// object is a JSON object in the order of the file. Its values are nil, bool,
// int, float64, string, []any and *object.
type object struct {
	names  []string
	values map[string]any
}

// What is not there has nothing in it: each of these takes nil.

func (o *object) has(name string) bool {
	if o == nil {
		return false
	}
	_, has := o.values[name]
	return has
}

func (o *object) get(name string) any {
	if o == nil {
		return nil
	}
	return o.values[name]
}

func (o *object) object(name string) *object {
	below, _ := o.get(name).(*object)
	return below
}

// parse reads the file as far as a dictionary: Hjson since 0.8.1, which is
// JSON with comments, without commas at line ends and with few quotes; before,
// JSON proper. Keys that are there twice are refused.
//
// Source: deepspeed/runtime/config.py, DeepSpeedConfig.__init__; config_utils.py,
// dict_raise_error_on_duplicate_keys; hjson 3.1.0, decoder.py.
func parse(text, release string) (*object, *Problem) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if hostfile.Before(release, "0.8.1") && !json.Valid([]byte(text)) {
		return nil, &Problem{Fatal: true, Original: "json.decoder.JSONDecodeError",
			Message: "the file is no JSON, and DeepSpeed reads Hjson (comments, a comma too many) from 0.8.1 on only: look with `python3 -m json.tool FILE`"}
	}
	reader := &hjsonReader{text: []rune(text)}
	if strings.HasPrefix(text, "\ufeff") {
		reader.at = 1
	}
	value, err := reader.attempt(reader.document)
	if err != nil {
		return nil, &Problem{Fatal: true, Original: err.Error(), Message: "the file cannot be read: " + strings.TrimPrefix(err.Error(), decodeError)}
	}
	root, isObject := value.(*object)
	if !isObject {
		return nil, &Problem{Fatal: true, Original: fmt.Sprintf("AttributeError: '%s' object has no attribute 'get'", pythonType(value)),
			Message: "the file holds no object: write { … } around the settings"}
	}
	return root, nil
}

// hjsonReader is the decoder of the Python package hjson 3.1.0, message for message.
//
// The library hjson-go 4.6.0 reads another dialect. Of 3,000 texts that both were given
// it took 62 that end DeepSpeed: a tab between quotes, triple quotes on the first line,
// 1e400, a comment that nobody closes. It refused 9 that DeepSpeed reads, as 5e for a text, and
// it makes no single character of \ud83d\ude00.
type hjsonReader struct {
	text []rune
	at   int
}

// hjsonError is an exception as Python prints it. It travels by panic, up to
// hjsonReader.attempt.
type hjsonError string

func (e hjsonError) Error() string { return string(e) }

const (
	decodeError = "hjson.scanner.HjsonDecodeError: "
	// indexError is how the decoder runs off the end of a text.
	indexError = hjsonError("IndexError: string index out of range")
)

func (r *hjsonReader) fail(at int, format string, values ...any) {
	line, column := r.place(at)
	panic(hjsonError(fmt.Sprintf(decodeError+format+": line %d column %d (char %d)", append(values, line, column, at)...)))
}

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

const eof rune = -1

func (r *hjsonReader) peek(ahead int) rune {
	if r.at+ahead < len(r.text) {
		return r.text[r.at+ahead]
	}
	return eof
}

func (r *hjsonReader) begins(mark string) bool {
	for i, c := range mark {
		if r.peek(i) != c {
			return false
		}
	}
	return true
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
		panic(hjsonError(fmt.Sprintf(decodeError+"Extra data: line %d column %d - line %d column %d (char %d - %d)", line, column, endLine, endColumn, r.at, len(r.text))))
	}
	return value
}

// unbraced is an object without braces or else, where that cannot be decoded, a single
// value; the error is that of the object.
func (r *hjsonReader) unbraced() any {
	start := r.at
	value, err := r.attempt(func() any { return r.object(false) })
	if err == nil {
		return value
	}
	if strings.HasPrefix(err.Error(), decodeError) {
		r.at = start
		if value, noValue := r.attempt(r.value); noValue == nil {
			return value
		}
	}
	panic(err)
}

func (r *hjsonReader) skip() rune {
	for {
		switch c := r.peek(0); {
		case isBlank(c):
			r.at++
		case c == '#', r.begins("//"):
			for r.peek(0) != '\n' && r.peek(0) != eof {
				r.at++
			}
		case r.begins("/*"):
			for r.at += 2; !r.begins("*/"); r.at++ {
				if r.at >= len(r.text) {
					panic(indexError)
				}
			}
			r.at += 2
		default:
			return c
		}
	}
}

func isBlank(c rune) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func (r *hjsonReader) value() any {
	switch c := r.peek(0); {
	case r.at >= len(r.text):
		r.fail(r.at, "Expecting value")
	case r.begins("'''"):
		return r.multiline()
	case c == '"' || c == '\'':
		return r.quoted()
	case c == '{':
		r.at++
		return r.object(true)
	case c == '[':
		r.at++
		return r.list()
	}
	return r.quoteless()
}

// next steps over a comma, which may as well be missing.
func (r *hjsonReader) next() rune {
	if r.skip() == ',' {
		r.at++
	}
	return r.skip()
}

func (r *hjsonReader) object(braces bool) *object {
	made := &object{values: map[string]any{}}
	var twins []string
	for c := r.skip(); !braces || c != '}'; {
		name := r.name()
		if r.skip() != ':' {
			r.fail(r.at, "Expecting ':' delimiter")
		}
		r.at++
		r.skip()
		value := r.value()
		switch {
		case !made.has(name):
			made.names = append(made.names, name)
		case !slices.Contains(twins, name):
			twins = append(twins, name)
		}
		made.values[name] = value
		if c = r.next(); !braces && c == eof {
			break
		}
	}
	if braces {
		r.at++
	}
	if twins != nil {
		slices.SortFunc(twins, func(a, b string) int { return slices.Index(made.names, a) - slices.Index(made.names, b) })
		panic(hjsonError("ValueError: Duplicate keys in DeepSpeed config: " + pythonRepr(twins)))
	}
	return made
}

func (r *hjsonReader) list() []any {
	made := []any{}
	c := r.skip()
	if c == eof {
		r.fail(r.at, "End of input while parsing an array (did you forget a closing ']'?)")
	}
	for c != ']' {
		made = append(made, r.value())
		c = r.next()
	}
	r.at++
	return made
}

func (r *hjsonReader) name() string {
	if c := r.skip(); c == '"' || c == '\'' {
		return r.quoted()
	}
	begin, space := r.at, -1
	for ; ; r.at++ {
		switch c := r.peek(0); {
		case c == eof:
			r.fail(r.at, "Bad key name (eof)")
		case c == ':' && begin == r.at:
			r.fail(begin, "Found ':' but no key name (for an empty key name use quotes)")
		case c == ':' && space >= 0 && space != r.at-1:
			r.fail(space, "Found whitespace in your key name (use quotes to include)")
		case c == ':':
			return strings.TrimSpace(string(r.text[begin:r.at]))
		case isBlank(c):
			if space < 0 || space == r.at-1 {
				space = r.at
			}
		case strings.ContainsRune("{}[],", c):
			r.fail(begin, "Found '%c' where a key name was expected (check your syntax or use quotes if the key name includes {}[],: or whitespace)", c)
		}
	}
}

var hjsonNumber = regexp.MustCompile(`^[\t ]*(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?[\t ]*$`)

// quoteless is a value without quotes: a number or a word of JSON, else everything up to the
// end of the line. So a comma that is missing makes one text of two settings.
func (r *hjsonReader) quoteless() any {
	if first := r.peek(0); first == eof || strings.ContainsRune("{}[],:", first) {
		r.fail(r.at, "Found a punctuator character when expecting a quoteless string (check your syntax)")
	}
	line, _, _ := strings.Cut(string(r.text[r.at:]), "\n")
	word := line[:wordEnd(line)]
	length := len([]rune(word))
	defer func() { r.at += length }()
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
	length = len([]rune(line))
	return strings.TrimSpace(line)
}

// wordEnd is where a word of JSON would end: at a comma, a bracket or a comment.
func wordEnd(line string) int {
	end := len(line)
	for _, mark := range []string{",", "}", "]", "#", "//", "/*"} {
		if at := strings.Index(line, mark); at >= 0 {
			end = min(end, at)
		}
	}
	return end
}

// pythonNumber is an int where it can be one: 5e8 is 500000000.
func pythonNumber(whole, rest string) any {
	if rest == "" {
		if n, err := strconv.Atoi(whole); err == nil {
			return n
		}
	}
	f, _ := strconv.ParseFloat(whole+rest, 64)
	switch {
	case rest != "" && math.IsInf(f, 0):
		panic(hjsonError("OverflowError: cannot convert float infinity to integer"))
	case f == math.Trunc(f) && math.Abs(f) < 1e10:
		return int(f)
	}
	return f
}

var hjsonEscapes = map[rune]rune{'"': '"', '\'': '\'', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (r *hjsonReader) quoted() string {
	begin, quote := r.at, r.peek(0)
	var made strings.Builder
	for r.at++; ; r.at++ {
		c := r.peek(0)
		switch {
		case c == quote:
			r.at++
			return made.String()
		case c != eof && c < ' ':
			r.at++
			r.fail(r.at, "Invalid control character %s at", pythonRepr(string(r.text[r.at:min(r.at+1, len(r.text))])))
		case c == '\\':
			r.at++
			c = r.escaped()
		}
		if r.at >= len(r.text) {
			r.fail(begin, "Unterminated string starting at")
		}
		made.WriteRune(c)
	}
}

func (r *hjsonReader) escaped() rune {
	c := r.peek(0)
	if plain, known := hjsonEscapes[c]; known || c == eof {
		return plain
	}
	if c != 'u' {
		r.fail(r.at, `Invalid \X escape sequence %s`, pythonRepr(string(c)))
	}
	unit := r.hex(1)
	if utf16.IsSurrogate(unit) && r.peek(5) == '\\' && r.peek(6) == 'u' {
		if both := utf16.DecodeRune(unit, r.hex(7)); both != '\ufffd' {
			unit = both
			r.at += 6
		}
	}
	r.at += 4
	return unit
}

func (r *hjsonReader) hex(ahead int) rune {
	digits := string(r.text[min(r.at+ahead, len(r.text)):min(r.at+ahead+4, len(r.text))])
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) != 4 {
		r.fail(r.at+ahead-2, `Invalid \uXXXX escape sequence`)
	}
	return rune(n)
}

// multiline is a text between triple quotes, its indent taken away: the column of the
// first quote. On the first line Python goes on counting from the end of the file.
func (r *hjsonReader) multiline() string {
	indent := 0
	for before := r.at - 1; r.text[(before+len(r.text))%len(r.text)] != '\n'; before-- {
		if indent++; before == -len(r.text) {
			panic(indexError)
		}
	}
	blanks := func(most int) {
		for ; most != 0 && (r.peek(0) == ' ' || r.peek(0) == '\t'); most-- {
			r.at++
		}
	}
	r.at += 3
	if blanks(-1); r.peek(0) == '\n' {
		r.at++
		blanks(indent)
	}
	var made strings.Builder
	for !r.begins("'''") {
		c := r.peek(0)
		if c == eof {
			r.fail(r.at, "Bad multiline string")
		}
		made.WriteRune(c)
		r.at++
		if c == '\n' {
			blanks(indent)
		}
	}
	r.at += 3
	return strings.TrimSuffix(made.String(), "\n")
}
