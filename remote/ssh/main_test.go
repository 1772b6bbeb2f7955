// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"testing"

	"preflight/testhosts/carriertest"
)

func TestMain(m *testing.M) { carriertest.Main(m, nil) }
