// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"preflight/hostfile"
)

// File is a DeepSpeed configuration file of the launching machine.
type File struct {
	Path string
	JSON string // text of the file or, if it is not JSON, what Python's hjson reads from it; "" if unknown
	// Hjson means that the file is not JSON. Refused is the exception that hjson raises, "" for
	// none.
	Hjson   bool
	Refused string
}

// parse reads the file as a dictionary. It returns nil without a problem if it is unknown what
// DeepSpeed reads from the file. DeepSpeed accepts Hjson since 0.8.1; earlier releases accept only
// JSON. DeepSpeed refuses duplicate keys.
//
// Source: deepspeed/runtime/config.py, DeepSpeedConfig.__init__; config_utils.py,
// dict_raise_error_on_duplicate_keys.
func parse(file File, release string) (*object, *Problem) {
	if file.Hjson && hostfile.Before(release, "0.8.1") {
		return nil, &Problem{Fatal: true, Original: "json.decoder.JSONDecodeError",
			Message: "the file is not JSON, and DeepSpeed reads Hjson (comments, extra commas) only since 0.8.1: check it with `python3 -m json.tool FILE`"}
	}
	if file.Refused != "" {
		return nil, unreadable(file.Refused)
	}
	if file.JSON == "" {
		return nil, nil
	}
	decoder := json.NewDecoder(strings.NewReader(file.JSON))
	decoder.UseNumber()
	value, err := decode(decoder)
	if err != nil {
		return nil, unreadable(err.Error())
	}
	root, isObject := value.(*object)
	if !isObject {
		return nil, &Problem{Fatal: true, Original: fmt.Sprintf("AttributeError: '%s' object has no attribute 'get'", pythonType(value)),
			Message: "the file holds no object: write { … } around the settings"}
	}
	return root, nil
}

// unreadable returns the problem for a file that makes DeepSpeed fail with an exception.
func unreadable(exception string) *Problem {
	return &Problem{Fatal: true, Original: exception, Message: "the file cannot be read: " + strings.TrimPrefix(exception, "hjson.scanner.HjsonDecodeError: ")}
}

// object is a JSON object in the order of the file. Its values are nil, bool, int, float64, string,
// []any and *object.
type object struct {
	names  []string
	values map[string]any
}

// The methods of object accept nil, which stands for a missing object without entries.

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

// decode reads the next value. The text of an error is an exception as Python prints it.
func decode(from *json.Decoder) (any, error) {
	token, err := from.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(from)
	case json.Delim('['):
		return decodeList(from)
	}
	if number, is := token.(json.Number); is {
		return pythonNumber(string(number))
	}
	return token, nil
}

func decodeObject(from *json.Decoder) (*object, error) {
	made := &object{values: map[string]any{}}
	var twins []string
	for from.More() {
		token, err := from.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		value, err := decode(from)
		switch {
		case err != nil:
			return nil, err
		case !made.has(name):
			made.names = append(made.names, name)
		case !slices.Contains(twins, name):
			twins = append(twins, name)
		}
		made.values[name] = value
	}
	if twins != nil {
		slices.SortFunc(twins, func(a, b string) int { return slices.Index(made.names, a) - slices.Index(made.names, b) })
		return nil, errors.New("ValueError: Duplicate keys in DeepSpeed config: " + pythonRepr(twins))
	}
	_, err := from.Token()
	return made, err
}

func decodeList(from *json.Decoder) ([]any, error) {
	made := []any{}
	for from.More() {
		value, err := decode(from)
		if err != nil {
			return nil, err
		}
		made = append(made, value)
	}
	_, err := from.Token()
	return made, err
}

// pythonNumber returns a number as hjson does, for example the int 500000000 for 5e8.
func pythonNumber(text string) (any, error) {
	if n, err := strconv.Atoi(text); err == nil {
		return n, nil
	}
	f, _ := strconv.ParseFloat(text, 64)
	switch {
	case math.IsInf(f, 0):
		return nil, errors.New("OverflowError: cannot convert float infinity to integer")
	case f == math.Trunc(f) && math.Abs(f) < 1e10:
		return int(f), nil
	}
	return f, nil
}
