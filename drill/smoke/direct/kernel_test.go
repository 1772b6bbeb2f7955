// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package direct

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestKernel interprets the kernel's text, one thread after another. The result must be the words
// that the rank expects.
func TestKernel(t *testing.T) {
	words := make([]uint32, 3*threads)
	for i := range words {
		words[i] = pattern(i)
	}
	for launch := range 2 {
		for i := range words {
			thread{t: t, words: words, n: 8, special: map[string]uint32{"%ctaid.x": uint32(i / threads), "%ntid.x": threads, "%tid.x": uint32(i % threads)}}.run()
		}
		for i, got := range words {
			if want := step.repeated(8 * (launch + 1)).apply(pattern(i)); got != want {
				t.Fatalf("launch %d: word %d is %#x, not %#x", launch, i, got, want)
			}
		}
	}
	if rounds%4 != 0 || step.times%2 == 0 {
		t.Error("the kernel takes four steps at once, each of them one-to-one")
	}
}

func TestRepeated(t *testing.T) {
	x := uint32(7)
	for count := range 100 {
		if got := step.repeated(count).apply(7); got != x {
			t.Fatalf("%d steps make %d, not %d", count, got, x)
		}
		x = step.apply(x)
	}
}

// thread is a GPU thread, as far as the kernel needs it. Integers are modulo 2⁶⁴ and are truncated
// to the operand size. Floats are stored as their bits.
type thread struct {
	t       *testing.T
	words   []uint32
	n       uint32
	special map[string]uint32
}

var (
	comment     = regexp.MustCompile(`//.*`)
	instruction = regexp.MustCompile(`^(?:@(%\w+) )?([a-z][\w.]*)\s*(.*)$`)
)

func (th thread) run() {
	body := comment.ReplaceAllString(source[strings.Index(source, "{")+1:strings.Index(source, "}")], "")
	lines := strings.FieldsFunc(strings.ReplaceAll(body, ":", ":;"), func(r rune) bool { return r == ';' })
	registers := map[string]uint64{}
	for i := 0; i < len(lines); i++ {
		match := instruction.FindStringSubmatch(strings.TrimSpace(lines[i]))
		if match == nil || match[1] != "" && registers[match[1]] == 0 {
			continue // a label, a declaration, or an instruction that this thread skips
		}
		op, args := match[2], strings.Split(strings.ReplaceAll(match[3], " ", ""), ",")
		if op == "ret" {
			return
		}
		if op == "bra" {
			for i = 0; strings.TrimSpace(lines[i]) != args[0]+":"; i++ {
			}
			continue
		}
		if strings.HasSuffix(match[0], ":") {
			continue
		}
		value := func(n int) uint64 { return th.operand(registers, args[n]) }
		float := func(n int) float64 { return float64(math.Float32frombits(uint32(value(n)))) }
		switch op {
		case "ld.param.u64", "ld.param.u32", "cvta.to.global.u64", "mov.u32", "mov.f32":
			registers[args[0]] = value(1)
		case "mad.lo.u32":
			registers[args[0]] = uint64(uint32(value(1))*uint32(value(2)) + uint32(value(3)))
		case "mad.wide.u32":
			registers[args[0]] = uint64(uint32(value(1)))*value(2) + value(3)
		case "and.b32":
			registers[args[0]] = value(1) & value(2)
		case "add.u32":
			registers[args[0]] = uint64(uint32(value(1)) + uint32(value(2)))
		case "sub.u32":
			registers[args[0]] = uint64(uint32(value(1)) - uint32(value(2)))
		case "cvt.rn.f32.u32":
			registers[args[0]] = uint64(math.Float32bits(float32(value(1))))
		case "cvt.rzi.u32.f32":
			registers[args[0]] = uint64(uint32(float(1)))
		case "fma.rn.f32": // for these numbers, float64 represents the results exactly
			registers[args[0]] = uint64(math.Float32bits(float32(float(1)*float(2) + float(3))))
		case "setp.ne.u32":
			registers[args[0]] = 0
			if value(1) != value(2) {
				registers[args[0]] = 1
			}
		case "ld.global.u32":
			registers[args[0]] = uint64(th.words[value(1)/4])
		case "st.global.u32":
			th.words[value(0)/4] = uint32(value(1))
		default:
			th.t.Fatalf("what is %q?", lines[i])
		}
	}
	th.t.Fatal("the kernel does not return")
}

// operand returns the value of a register, a number, a parameter, or the address in a register. The
// buffer is at address 0.
func (th thread) operand(registers map[string]uint64, text string) uint64 {
	text = strings.Trim(text, "[]")
	parameters := map[string]uint64{"buffer": 0, "rounds": uint64(th.n), "times": uint64(step.times), "plus": uint64(step.plus)}
	if value, ok := parameters[text]; ok {
		return value
	}
	if value, ok := th.special[text]; ok {
		return uint64(value)
	}
	if bits, ok := strings.CutPrefix(text, "0f"); ok {
		value, err := strconv.ParseUint(bits, 16, 32)
		if err != nil {
			th.t.Fatal(err)
		}
		return value
	}
	if value, err := strconv.ParseUint(text, 10, 32); err == nil {
		return value
	}
	value, set := registers[text]
	if !set {
		th.t.Fatalf("nothing was put into %q", text)
	}
	return value
}
