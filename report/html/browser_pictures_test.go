// SPDX-License-Identifier: Apache-2.0

package html

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"preflight/checks"
	"preflight/testhosts/reporttest"
)

// scene is a page as a user sees it.
type scene struct {
	name   string
	report checks.Report
	width  int64   // width of the window, in CSS pixels before the zoom; 0 means 1280
	zoom   float64 // 0 means no zoom
	dark   bool
	media  string
}

func scenes(t *testing.T) []scene {
	named := reporttest.Recorded(t)
	rename(&named, 2, strings.Repeat("gpu-node-of-the-third-row.", 8)[:200])
	healthy := reporttest.Passing()
	healthy.Nodes[0] = reporttest.Recorded(t).Nodes[0]
	interrupted := reporttest.Recorded(t)
	interrupted.Interrupted = true
	return []scene{
		{name: "light", report: reporttest.Recorded(t), width: 1400},
		{name: "dark", report: reporttest.Recorded(t), width: 1400, dark: true},
		{name: "zoomed", report: reporttest.Recorded(t), zoom: 2},
		{name: "phone", report: reporttest.Recorded(t), width: 420},
		{name: "phone-dark", report: reporttest.Recorded(t), width: 420, dark: true},
		{name: "narrow", report: everything(), width: 320},
		{name: "print", report: reporttest.Recorded(t), width: 800, media: "print"},
		{name: "parts", report: everything()},
		{name: "parts-dark", report: everything(), dark: true},
		{name: "policy-8", report: underPolicy(t, reporttest.Recorded(t))},
		{name: "policy-phone", report: underPolicy(t, reporttest.Recorded(t)), width: 390},
		{name: "policy-90", report: underPolicy(t, fullMesh(t, 90))},
		{name: "nodes-1000", report: largeFleet(t, 1000)},
		{name: "long-name", report: named},
		{name: "long-name-phone", report: named, width: 390},
		{name: "one-node", report: largeFleet(t, 1)},
		{name: "nothing-found", report: healthy},
		{name: "nobody-reached", report: unreached(t)},
		{name: "interrupted", report: interrupted},
	}
}

// TestBrowserPictures takes screenshots for people. It checks that the screenshots show the whole
// page in its colours, and that no part of the page is outside of the window.
func TestBrowserPictures(t *testing.T) {
	browser := newTab(t)
	for _, s := range scenes(t) {
		t.Run(s.name, func(t *testing.T) {
			b := browser
			b.t = t
			zoom := max(s.zoom, 1)
			width := int64(float64(max(s.width, 320)) / zoom)
			if s.width == 0 {
				width = int64(1280 / zoom)
			}
			b.do(chromedp.EmulateViewport(width, int64(900/zoom), chromedp.EmulateScale(zoom)), media(s.media))
			b.open(s.report)
			theme := map[bool]string{true: "dark", false: "light"}[s.dark]
			b.have(`document.documentElement.dataset.theme = "` + theme + `";
				document.querySelectorAll(".heat-map").forEach((box) => box.childElementCount || drawMesh(box)); facts.show(0, false)`)
			b.until(`document.querySelector("#facts-shown table")`)
			b.fits(int(width))
			await(b, fmt.Sprintf(`[...document.querySelectorAll(".heat th, .matrix th")].filter((e) => Math.max(e.offsetWidth, e.offsetHeight) > %d).length`, longest), is(0))
			height := ask[int](b, `document.documentElement.scrollHeight`)
			taken := get(b, chromedp.FullScreenshot(100))
			save(t, s.name+".png", taken)
			picture, err := png.Decode(bytes.NewReader(taken))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := picture.Bounds().Size(), image.Pt(int(float64(width)*zoom), int(float64(height)*zoom)); got != want {
				t.Errorf("the picture is %v, and the page %v", got, want)
			}
			seen := look(picture)
			if seen.colours < 20 || seen.ground > 0.97 || seen.light > 0.5 == s.dark {
				t.Errorf("%d colours, of which one covers %.3f of the picture, which is %.2f light", seen.colours, seen.ground, seen.light)
			}
		})
	}
}

// fits checks that the page does not scroll sideways. Only boxes with their own scroll bars may.
func (b tab) fits(width int) {
	b.t.Helper()
	if wide := ask[int](b, `document.documentElement.scrollWidth`); wide > width {
		b.t.Errorf("the page is %d wide in a window of %d: %q", wide, width, ask[[]string](b, fmt.Sprintf(
			`[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > %d && !e.closest(".scroll, pre, nav")).map((e) => e.outerHTML.slice(0, 80))`, width+1)))
	}
}

// longest is the maximum length of a name in CSS pixels. Longer names are cut, so that a map has
// room for its cells.
const longest = 400

// sight holds values that can be measured in any picture.
type sight struct {
	colours int
	ground  float64 // the share of the most frequent colour, 0 to 1
	light   float64 // the mean brightness, 0 for black to 1 for white
}

// look reads every third pixel in both directions, because letters and lines are wider than three
// pixels.
func look(picture image.Image) sight {
	count := map[color.Color]int{}
	pixels, light := 0, 0
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y += 3 {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x += 3 {
			c := picture.At(x, y)
			count[c]++
			light += int(color.GrayModel.Convert(c).(color.Gray).Y)
			pixels++
		}
	}
	most := 0
	for _, n := range count {
		most = max(most, n)
	}
	return sight{len(count), float64(most) / float64(pixels), float64(light) / 255 / float64(pixels)}
}

// TestLook checks that a blank picture is recognized as blank.
func TestLook(t *testing.T) {
	blank := image.NewRGBA(image.Rect(0, 0, 300, 300))
	for i := range blank.Pix {
		blank.Pix[i] = 255
	}
	if got := look(blank); got != (sight{colours: 1, ground: 1, light: 1}) {
		t.Errorf("a white picture is %+v", got)
	}
}
