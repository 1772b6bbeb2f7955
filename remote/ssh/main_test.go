// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"testing"

	"preflight/remote/carriertest"
)

func TestMain(m *testing.M) { carriertest.Main(m) }
