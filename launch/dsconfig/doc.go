// SPDX-License-Identifier: Apache-2.0

// Package dsconfig reads a DeepSpeed configuration as a release of DeepSpeed does: its
// Hjson, the settings that the release knows, what pydantic refuses of their values, the
// rules between them, and the extensions that it has DeepSpeed compile.
//
// It is handed text and opens no file. Whether a finding matters is for checks.
package dsconfig
