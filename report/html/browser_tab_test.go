// SPDX-License-Identifier: Apache-2.0

package html

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"preflight/checks"
)

// chromium is the browser of these tests. `make browser-test` installs it.
const chromium = "/usr/bin/chromium"

var screenshots = flag.String("screenshots", "", "keep the pictures that are taken of the page in this directory")

// tab is a report's page in a real browser.
type tab struct {
	t       testing.TB
	context context.Context
	dir     string // directory of the pages
}

// browse opens a report in a new browser.
func browse(t testing.TB, r checks.Report, options ...chromedp.ExecAllocatorOption) tab {
	t.Helper()
	b := newTab(t, options...)
	b.do(chromedp.EmulateViewport(1280, 900))
	b.open(r)
	return b
}

// open opens a report as a user does, from a file.
func (b tab) open(r checks.Report) {
	b.t.Helper()
	file := filepath.Join(b.dir, "report.html")
	if err := os.WriteFile(file, []byte(htmlOf(b.t, r)), 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.Navigate("file://" + file))
}

// newTab starts a browser. The test fails if the browser writes anything to its console, such as an
// error or a violation of the page's policy.
func newTab(t testing.TB, options ...chromedp.ExecAllocatorOption) tab {
	t.Helper()
	if _, err := os.Stat(chromium); err != nil {
		t.Skipf("NOT RUN: there is no %s (make browser-test installs it)", chromium)
	}
	if testing.Short() {
		t.Skip("NOT RUN: -short starts no browser")
	}
	// These options have three reasons. Root cannot use chromium's sandbox. /dev/shm of a container
	// is small. A click can miss while a page scrolls smoothly.
	options = slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-prefers-reduced-motion", true)}, options)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, stopReading := context.WithCancel(ctx)
	console := chromedp.Console(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for message, err := range console {
			if err != nil {
				return
			}
			t.Errorf("the browser complains: %s", message)
		}
	})
	t.Cleanup(func() {
		stopReading()
		reading.Wait()
	})
	if err := chromedp.Do(ctx); err != nil { // the browser ends with the context that started it
		t.Fatal(err)
	}
	return tab{t, ctx, t.TempDir()}
}

func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.context, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// get returns the result of an action.
func get[T any](b tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.context, patience)
	defer cancel()
	answer, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

// ask evaluates an expression on the page.
func ask[T any](b tab, expression string) T {
	b.t.Helper()
	return get(b, chromedp.Evaluate[T](expression))
}

// have runs a script on the page.
func (b tab) have(script string) {
	b.t.Helper()
	ask[bool](b, "(() => {"+script+"; return true })()")
}

// patience is how long a page on a busy machine may take to reach an expected state. After this
// time the test fails and reports what the page shows instead.
const patience = 30 * time.Second

// await waits until an expression has the wanted value, because a page reacts with a short delay
// after an action.
func await[T any](b tab, expression string, wanted func(T) bool) T {
	b.t.Helper()
	for end := time.Now().Add(patience); ; {
		got := ask[T](b, expression)
		if wanted(got) {
			return got
		}
		if time.Now().After(end) {
			b.t.Fatalf("still %.400q, says %s", fmt.Sprint(got), expression)
		}
		b.do(chromedp.Sleep(20 * time.Millisecond))
	}
}

// is returns a function that accepts only the value want. starts returns a function that accepts
// texts that begin with want.
func is[T any](want T) func(T) bool { return func(got T) bool { return cmp.Equal(got, want) } }
func starts(want string) func(string) bool {
	return func(got string) bool { return strings.HasPrefix(got, want) }
}

// until waits for an expression to be true.
func (b tab) until(expression string) {
	b.t.Helper()
	await(b, "!!("+expression+")", is(true))
}

// in selects the first element that matches a selector.
func in(selector string) chromedp.CSS { return chromedp.CSS(selector) }

// rowLabels returns the labels of the matrix's rows.
const rowLabels = `[...document.querySelectorAll("#matrix-table tbody th")].map((th) => th.firstChild.textContent)`

// fill replaces the text of a filter.
func (b tab) fill(id, text string) {
	b.t.Helper()
	b.have(`const box = document.getElementById("` + id + `"); box.focus(); box.select()`)
	if text == "" {
		b.do(chromedp.KeyEvent(kb.Backspace))
	} else {
		b.do(chromedp.KeyEvent(text))
	}
	await(b, `document.getElementById("`+id+`").value`, is(text))
}

// media makes the browser draw the page for a medium: "print", or "" for the screen.
func media(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: name})
		return err
	})
}

// save keeps a file if the flag -screenshots names a directory.
func save(t testing.TB, name string, content []byte) {
	t.Helper()
	if *screenshots == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name), content, 0o644); err != nil {
		t.Fatal(err)
	}
}
