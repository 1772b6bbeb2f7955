package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// allowed says for a person what a kind of setting takes. Kinds have pflag's names.
var allowed = map[string]string{
	"bool":        "true or false",
	"int":         "a whole number",
	"int64":       "a whole number",
	"float64":     "a number",
	"duration":    "a duration like 30s or 2m",
	"string":      "text",
	"stringSlice": "a list",
}

// kindOf is pflag's name for the type of a Config field.
func kindOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[[]string]():
		return "stringSlice"
	}
	return t.String()
}

// readableVariables refuses values of the environment that are none of their
// setting's, which viper would bend to fit or refuse in Go's terms: to it 12 is a
// duration of 12 nanoseconds, and 1.5 nodes are 1. Those of the file are refused where
// it is read, with their lines.
func readableVariables(v *viper.Viper, flags *pflag.FlagSet) error {
	for field := range reflect.TypeFor[Config]().Fields() {
		key := field.Tag.Get("mapstructure")
		variable := "PREFLIGHT_" + strings.ToUpper(key)
		if flag := flags.Lookup(key); os.Getenv(variable) == "" || flag != nil && flag.Changed {
			continue
		}
		if kind := kindOf(field.Type); !readable(kind, v.Get(key)) {
			return wrongValue(variable, kind, v.Get(key))
		}
		if choices[key] != nil && !slices.Contains(choices[key], os.Getenv(variable)) {
			return fmt.Errorf("%s: %q is none of %s", variable, os.Getenv(variable), strings.Join(choices[key], ", "))
		}
	}
	return nil
}

// readable is whether a value, from YAML or as text, is one of the kind.
func readable(kind string, value any) bool {
	list, isList := value.([]any)
	if isList && kind == "stringSlice" {
		for _, entry := range list {
			if !readable("string", entry) {
				return false
			}
		}
		return true
	}
	if _, isMap := value.(map[string]any); isMap || isList {
		return false
	}
	text := fmt.Sprint(value)
	var err error
	switch kind {
	case "bool":
		_, err = strconv.ParseBool(text)
	case "int", "int64":
		_, err = strconv.ParseInt(text, 10, 64)
	case "float64":
		_, err = strconv.ParseFloat(text, 64)
	case "duration":
		_, err = time.ParseDuration(text)
	}
	return err == nil
}

// wrongValue says which setting, its value, and what it takes.
func wrongValue(name, kind string, value any) error {
	text := fmt.Sprint(value)
	if _, err := strconv.ParseFloat(text, 64); err == nil && kind == "duration" {
		return fmt.Errorf("%s: %s has no unit: write %ss", name, text, text)
	}
	return fmt.Errorf("%s: %q is not %s", name, text, allowed[kind])
}

// flagError puts pflag's words for a wrong value into ours.
func flagError(err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kind := invalid.GetFlag().Value.Type()
		return wrongValue("--"+invalid.GetFlag().Name, kind, invalid.GetValue())
	}
	return err
}
