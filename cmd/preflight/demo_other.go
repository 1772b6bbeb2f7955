// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
)

func cannotRaise() string { return "raising hosts needs Linux namespaces" }

func demo(context.Context, Config) error { return errors.New(cannotRaise()) }
