package launch

import "testing"

func TestNumber(t *testing.T) {
	for _, test := range []struct {
		text     string
		value    int64
		isNumber bool
	}{
		{"1", 1, true},
		{"0", 0, true},
		{"-1", -1, true},
		{"+7", 7, true},
		{" 22", 22, true},
		{"0x10", 16, true},
		{"010", 8, true}, // octal, as in C
		{"08", 0, true},  // the octal number 0, and an 8 that is left over
		{"4194304 bytes", 4194304, true},
		{"4M", 4, true},
		{"true", 0, false},
		{"", 0, false},
		{"-", 0, false},
		{"x1", 0, false},
	} {
		if value, isNumber := Number(test.text); value != test.value || isNumber != test.isNumber {
			t.Errorf("Number(%q) = %d, %v; want %d, %v", test.text, value, isNumber, test.value, test.isNumber)
		}
	}
}
