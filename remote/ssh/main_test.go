package ssh

import (
	"testing"

	"preflight/remote/carriertest"
)

func TestMain(m *testing.M) { carriertest.Main(m) }
