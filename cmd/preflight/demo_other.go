// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
)

func cannotRaise() string { return "starting hosts needs Linux namespaces" }

func demo(context.Context, Config) error { return errors.New(cannotRaise()) }
