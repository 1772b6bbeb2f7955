//go:build !linux

package main

import (
	"context"
	"errors"
)

// cannotRaise says why no cluster can be raised here.
func cannotRaise() string { return "raising hosts needs Linux namespaces" }

func demo(context.Context, Config) error { return errors.New(cannotRaise()) }
