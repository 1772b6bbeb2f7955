// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// watch measures the load of the machine that does not come from the benchmark.
type watch struct {
	before string    // load average and run queue before the first measurement
	busy   sample    // number of busy processors while no process of the benchmark ran
	queue  []float64 // load averages at these times; they include the load of the benchmark
}

func watchOthers() *watch {
	w := &watch{before: loadAverage()}
	w.look()
	return w
}

// look measures the load for a moment in which no process of the benchmark runs.
func (w *watch) look() {
	began, used := time.Now(), busyTime()
	time.Sleep(500 * time.Millisecond)
	w.busy = append(w.busy, max(0, (busyTime()-used)/time.Since(began).Seconds()))
	var load float64
	fmt.Sscan(loadAverage(), &load)
	w.queue = append(w.queue, load)
}

// words returns a sentence on how reliable the values are.
func (w *watch) words() string {
	const idle = 0.1 // share of each processor's time
	text := fmt.Sprintf("Load average and run queue before: %s; load average in between: %.1f at most. Other programs kept %.1f of %d processors busy, %.1f at most.",
		w.before, slices.Max(w.queue), w.busy.median(), runtime.NumCPU(), slices.Max(w.busy))
	if slices.Max(w.busy) > idle*float64(runtime.NumCPU()) {
		text += "\nThe machine was not idle, so programs had to wait for processors. Ratios of times mean little, and times nothing."
	}
	return text
}

// loadAverage returns the load average of the last minute and the number of threads that run or
// wait.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if len(fields) < 4 {
		return "unknown"
	}
	running, _, _ := strings.Cut(fields[3], "/")
	return fields[0] + ", " + running
}

// busyTime returns the seconds that all processors together have worked since the machine started.
func busyTime() float64 {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0
	}
	t := stat.CPUTotal
	return t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal
}
