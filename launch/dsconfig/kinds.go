// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"preflight/hostfile"
)

// kind returns what is wrong with a value in the words of pydantic 1 and 2, "" for both if it is
// valid. A nil kind accepts anything.
type kind func(value any) (old, new string)

// kinds maps the names that deepspeed.yaml uses for kinds of values to their checks.
var kinds = map[string]kind{
	"flag":              checkFlag,
	"text":              checkText,
	"path":              only(is[string], "value is not a valid path", "Input is not a valid path"),
	"list":              only(is[[]any], "value is not a valid list", "Input should be a valid list"),
	"dict":              checkDict,
	"whole":             number(true),
	"whole from 0":      number(true, from0),
	"whole above 0":     number(true, above0),
	"number":            number(false),
	"share":             number(false, from0, upTo1),
	"share within":      number(false, above0, below1),
	"stage":             checkStage,
	"device":            only(isDevice, "value is not a valid enumeration member; permitted: 'none', 'cpu', 'nvme'", "Input should be 'none', 'cpu' or 'nvme'"),
	"loss scale":        checkLossScale,
	"loss_scale_window": checkScaleStep("loss_scale_window"),
	"min_loss_scale":    checkScaleStep("min_loss_scale"),
}

// UnmarshalYAML reads the name of a kind.
func (k *kind) UnmarshalYAML(name *yaml.Node) error {
	is, known := kinds[name.Value]
	if !known {
		return fmt.Errorf("line %d: unknown kind %q", name.Line, name.Value)
	}
	*k = is
	return nil
}

func only(is func(value any) bool, old, new string) kind {
	return func(value any) (string, string) {
		if is(value) {
			return "", ""
		}
		return old, new
	}
}

func is[T any](value any) bool {
	_, is := value.(T)
	return is
}

func isDevice(value any) bool { return value == "none" || value == "cpu" || value == "nvme" }

// checkDict accepts a dictionary. pydantic 1 also accepts an empty list as an empty dictionary.
func checkDict(value any) (old, new string) {
	switch v := value.(type) {
	case *object:
		return "", ""
	case []any:
		if len(v) == 0 {
			return "", "Input should be a valid dictionary"
		}
	}
	return "value is not a valid dict", "Input should be a valid dictionary"
}

func checkFlag(value any) (old, new string) {
	if _, isFlag := parseFlag(value); isFlag {
		return "", ""
	}
	old, new = "value could not be parsed to a boolean", "Input should be a valid boolean"
	switch value.(type) {
	case int, string:
		new += ", unable to interpret input"
	}
	return old, new
}

func parseFlag(value any) (on, isFlag bool) {
	switch v := value.(type) {
	case bool:
		return v, true
	case int:
		return v == 1, v == 0 || v == 1
	case string:
		on = slices.Contains([]string{"1", "on", "t", "true", "y", "yes"}, strings.ToLower(v))
		return on, on || slices.Contains([]string{"0", "off", "f", "false", "n", "no"}, strings.ToLower(v))
	}
	return false, false
}

// checkText accepts a string. pydantic 1 also accepts a number and converts it to a string.
func checkText(value any) (old, new string) {
	switch value.(type) {
	case string:
		return "", ""
	case int, float64, bool:
		return "", "Input should be a valid string"
	}
	return "str type expected", "Input should be a valid string"
}

type bound struct {
	words string
	limit float64
	holds func(n float64) bool
}

var (
	from0  = bound{"greater than or equal to", 0, func(n float64) bool { return n >= 0 }}
	above0 = bound{"greater than", 0, func(n float64) bool { return n > 0 }}
	upTo1  = bound{"less than or equal to", 1, func(n float64) bool { return n <= 1 }}
	below1 = bound{"less than", 1, func(n float64) bool { return n < 1 }}
)

// number accepts values that pydantic converts to a number within bounds.
func number(isWhole bool, bounds ...bound) kind {
	return func(value any) (old, new string) {
		n, old, new := parseNumber(value, isWhole)
		for _, b := range bounds {
			if b.holds(n) {
				continue
			}
			limit := strconv.FormatFloat(b.limit, 'f', -1, 64)
			if new == "" {
				new = "Input should be " + b.words + " " + limit
			}
			if !isWhole {
				limit += ".0"
			}
			if old == "" {
				old = "ensure this value is " + b.words + " " + limit
			}
		}
		return old, new
	}
}

// parseNumber returns the number that pydantic makes of a value: true is 1, "3" is 3. For whole
// numbers, pydantic 1 cuts off fractions and pydantic 2 refuses them.
func parseNumber(value any, isWhole bool) (n float64, old, new string) {
	old, new, as := "value is not a valid float", "Input should be a valid number", "a number"
	if isWhole {
		old, new, as = "value is not a valid integer", "Input should be a valid integer", "an integer"
	}
	switch v := value.(type) {
	case int:
		return float64(v), "", ""
	case bool:
		return map[bool]float64{true: 1}[v], "", ""
	case float64:
		if isWhole && v != math.Trunc(v) {
			return math.Trunc(v), "", new + ", got a number with a fractional part"
		}
		return v, "", ""
	case string:
		n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil || isWhole && strings.ContainsAny(v, ".eE") {
			return 0, old, new + ", unable to parse string as " + as
		}
		return n, "", ""
	}
	return 0, old, new
}

// checkStage accepts the numbers of the enumeration of ZeRO stages. The last number has two names
// in it. pydantic 2 converts strings to numbers for it, pydantic 1 does not.
func checkStage(value any) (old, new string) {
	const wantOld, wantNew = "value is not a valid enumeration member; permitted: 0, 1, 2, 3", "Input should be 0, 1, 2, 3 or 3"
	n, problem, _ := parseNumber(value, false)
	if problem != "" || n != math.Trunc(n) || n < 0 || n > 3 {
		return wantOld, wantNew
	}
	if _, isText := value.(string); isText {
		return wantOld, ""
	}
	return "", ""
}

// checkLossScale and checkScaleStep check two settings of fp16 more strictly than the checks for
// numbers do.
//
// Source: deepspeed/runtime/precision_config.py, the validators of DeepSpeedFP16Config, since
// 0.18.8 and 0.19.3.
func checkLossScale(value any) (old, new string) {
	n, problem, _ := parseNumber(value, false)
	_, isFlag := value.(bool)
	switch {
	case isFlag:
		new = "Value error, fp16.loss_scale must be a number, not bool"
	case problem != "":
		new = "Value error, fp16.loss_scale must be a number"
	case n < 0:
		new = "Value error, fp16.loss_scale must be >= 0 (0 enables dynamic loss scaling)"
	}
	return "", new
}

func checkScaleStep(name string) kind {
	return func(value any) (old, new string) {
		_, problem, new := parseNumber(value, true)
		if _, isFlag := value.(bool); isFlag {
			return "", "Value error, fp16." + name + " must be an integer, not bool"
		}
		if problem != "" {
			new = "Value error, fp16." + name + " must be an integer"
		}
		return "", new
	}
}

func pythonRepr(value any) string {
	switch v := value.(type) {
	case string:
		return hostfile.PythonRepr(v)
	case []string:
		var all []string
		for _, text := range v {
			all = append(all, pythonRepr(text))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return fmt.Sprint(value)
}

func pythonType(value any) string {
	switch value.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []any:
		return "list"
	}
	return "dict"
}
