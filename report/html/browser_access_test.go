// SPDX-License-Identifier: Apache-2.0

package html

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// heard is an element as a screen reader announces it.
type heard struct{ role, name string }

// hear returns the tree that a screen reader reads.
func (b tab) hear() (all []heard) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		tree, err := cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		if err != nil {
			return err
		}
		for _, node := range tree.Nodes {
			if !node.Ignored {
				all = append(all, heard{spoken(node.Role), spoken(node.Name)})
			}
		}
		return nil
	}))
	return all
}

func spoken(value *accessibility.Value) (text string) {
	if value != nil {
		_ = json.Unmarshal(value.Value, &text) // if the value is not a text, text stays ""
	}
	return strings.TrimSpace(text)
}

// laidOpen is a script that opens everything on the page.
const laidOpen = `document.querySelectorAll("details").forEach((d) => { d.open = true; });
	document.getElementById("matrix-all").click(); facts.show(0, false)`

// TestBrowserNamesAll checks that every control, region, drawing and heading has a name for screen
// readers.
func TestBrowserNamesAll(t *testing.T) {
	b := browse(t, everything())
	b.have(laidOpen)
	b.until(`document.querySelector(".heat") && document.querySelector("#facts-shown table")`)
	met := map[string]int{}
	roles := []string{"button", "link", "searchbox", "combobox", "checkbox", "region", "grid", "heading", "image"}
	for _, element := range b.hear() {
		if !slices.Contains(roles, element.role) {
			continue
		}
		met[element.role]++
		if element.name == "" {
			t.Errorf("a %s has no name", element.role)
		}
	}
	for _, role := range roles {
		if met[role] == 0 {
			t.Errorf("there is no %s, of %v", role, met)
		}
	}
}

// TestBrowserKeepsStill checks that the page does not scroll smoothly if the user asks for reduced
// motion. The browser of these tests asks for it.
func TestBrowserKeepsStill(t *testing.T) {
	b := browse(t, everything())
	b.until(`matchMedia("(prefers-reduced-motion: reduce)").matches`)
	await(b, `getComputedStyle(document.documentElement).scrollBehavior`, is("auto"))
	await(b, `[...document.querySelectorAll("*")].filter((e) => getComputedStyle(e).transitionDuration !== "0s" || getComputedStyle(e).animationName !== "none").length`, is(0))
}
