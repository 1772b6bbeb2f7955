// SPDX-License-Identifier: Apache-2.0
// This empty file lets the Go compiler accept a function without a body.
