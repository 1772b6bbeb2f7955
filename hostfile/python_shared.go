package hostfile

// This file is what command lines share of Python's idea of text.

// PythonInt is what int(text) reads, in ASCII digits with a "-" before them where
// it is negative. It knows no limit; ok is false where Python raises ValueError.
func PythonInt(text string) (digits string, ok bool) { return pyNumber(text) }

// PythonRepr is repr(text), as Python's messages quote a text.
func PythonRepr(text string) string { return pyRepr(text) }
