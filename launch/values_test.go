package launch

import "testing"

func TestBefore(t *testing.T) {
	for _, test := range []struct {
		text, than string
		want       bool
	}{
		{"2.4.9", "2.5", true},
		{"2.5.0", "2.5", false},
		{"2.10", "2.9", false},
		{"2.5.0a0+git1234", "2.5", false}, // counts as the release it leads to
		{"2.21.5", "2.23", true},
		{"2.21.5+cuda12.4", "2.23", true}, // as NCCL's library names itself
		{"2.19.3-1", "2.19.3", false},     // as its tags do
		{"", "2.5", false},
		{"unknown", "2.5", false},
	} {
		if got := Before(test.text, test.than); got != test.want {
			t.Errorf("Before(%q, %q) = %v", test.text, test.than, got)
		}
	}
}

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
