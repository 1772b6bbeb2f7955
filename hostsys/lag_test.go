package hostsys

import "testing"

func BenchmarkLook(b *testing.B) {
	k, g := &kernelView{}, &goView{}
	b.ReportAllocs()
	for b.Loop() {
		k.since()
		g.since()
	}
}
