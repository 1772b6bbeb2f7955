// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"preflight/internal/text"
)

type selection struct {
	option  string
	hosts   []Host
	at      map[string]int   // maps a name to its index in hosts
	kept    map[string][]int // maps a host to its remaining slots
	checked bool             // --include is checked against the hostfile
	notes   []Note
	bad     *multierror.Error
}

// merge joins the specifications of each host and sorts the host's slots, as DeepSpeed does since
// 0.15.2. Earlier releases handle each specification alone, from left to right, and stop at the
// first one that they cannot parse.
func (c *selection) merge(specs []spec) []spec {
	var merged []spec
	at := map[string]int{}
	for _, s := range specs {
		if s.bad != nil {
			c.refuse(s.bad)
			continue
		}
		i, seen := at[s.host]
		if !seen {
			i = len(merged)
			at[s.host] = i
			merged = append(merged, spec{host: s.host})
		}
		merged[i].slots = append(merged[i].slots, s.slots...)
	}
	for i := range merged {
		slices.Sort(merged[i].slots)
		merged[i].slots = slices.Compact(merged[i].slots)
	}
	return merged
}

func (c *selection) include(specs []spec) {
	c.kept = map[string][]int{}
	for _, s := range specs {
		host, ok := c.find(s)
		switch {
		case !ok:
		case s.slots == nil && c.checked:
			c.kept[s.host] = slices.Clone(host.Slots)
		case s.slots == nil:
			c.kept[s.host] = []int{}
			c.notes = append(c.notes, Note{ID: "include-drops-host", Line: host.Line, Message: fmt.Sprintf(
				"--include names %s without slots, and DeepSpeed 0.15.2 to 0.19.6 drops such a host: write %s", s.host, written(host))})
		case c.checked:
			if host.Slots == nil || c.has(host, s.slots) {
				c.kept[s.host] = unique(s.slots)
			}
		default:
			c.kept[s.host] = s.slots
			c.noteUnchecked(host, s.slots)
		}
	}
}

func (c *selection) exclude(specs []spec) {
	c.kept = map[string][]int{}
	for _, host := range c.hosts {
		c.kept[host.Name] = slices.Clone(host.Slots)
	}
	for _, s := range specs {
		host, ok := c.find(s)
		switch {
		case !ok:
		case s.slots == nil:
			c.kept[s.host] = []int{}
		case c.has(host, s.slots):
			c.remove(s)
		}
	}
}

// remove takes slots away from a host. If a slot is named twice, DeepSpeed before 0.15.2 fails at
// the second occurrence, with the error of Python's list.
func (c *selection) remove(s spec) {
	for _, slot := range s.slots {
		i := slices.Index(c.kept[s.host], slot)
		if i < 0 {
			c.refuse(&FilterError{Option: c.option, DeepSpeed: "list.remove(x): x not in list",
				Message: fmt.Sprintf("slot %d of %s is named twice; name it once", slot, s.host)})
			continue
		}
		c.kept[s.host] = slices.Delete(c.kept[s.host], i, i+1)
	}
}

// left returns the hosts that still have slots, in hostfile order. It keeps the hosts whose number
// of slots is unknown.
func (c *selection) left() []Host {
	var left []Host
	for _, host := range c.hosts {
		slots, named := c.kept[host.Name]
		if !named {
			continue
		}
		if slots != nil && len(slots) == 0 {
			if host.Slots != nil && len(host.Slots) == 0 {
				c.notes = append(c.notes, Note{ID: "zero-slots", Line: host.Line, Message: fmt.Sprintf(
					"%s has slots=0, so %s leaves it out; without the filter it would count as a node", host.Name, c.option)})
			}
			continue
		}
		host.Slots = slots
		left = append(left, host)
	}
	return left
}

func (c *selection) find(s spec) (Host, bool) {
	if s.bad != nil {
		c.refuse(s.bad)
		return Host{}, false
	}
	if i, ok := c.at[s.host]; ok {
		return c.hosts[i], true
	}
	var names []string
	for _, host := range c.hosts {
		names = append(names, host.Name)
	}
	message := fmt.Sprintf("host %q is not in the hostfile, which has %s", s.host, Fold(names))
	switch {
	case s.host == "":
		message = `"@" must stand between two hosts: remove the one too many`
	case strings.Contains(s.host, ","):
		message += `; "@" separates hosts here, "," separates slots`
	case strings.Contains(s.host, "["):
		message += "; ranges are not expanded here"
	default:
		message += text.DidYouMean(Near(s.host, names))
	}
	c.refuse(&FilterError{Option: c.option, Message: message, DeepSpeed: fmt.Sprintf("Hostname '%s' not found in hostfile", s.host)})
	return Host{}, false
}

func (c *selection) has(host Host, slots []int) bool {
	all := true
	for _, slot := range slots {
		if slices.Contains(host.Slots, slot) {
			continue
		}
		all = false
		message := fmt.Sprintf("host %s has no slot %d, its %d slots count from 0", host.Name, slot, len(host.Slots))
		if host.Slots == nil {
			message = fmt.Sprintf("the number of slots of %s is unknown: write it as %[1]s:N in -w", host.Name)
		}
		c.refuse(&FilterError{Option: c.option, Message: message, DeepSpeed: fmt.Sprintf("No slot '%d' specified on host '%s'", slot, host.Name)})
	}
	return all
}

func (c *selection) noteUnchecked(host Host, slots []int) {
	if host.Slots == nil {
		return
	}
	for _, slot := range slots {
		if !slices.Contains(host.Slots, slot) {
			c.notes = append(c.notes, Note{ID: "include-unchecked-slots", Line: host.Line, Message: fmt.Sprintf(
				"--include names slot %d of %s, which has slots=%d in the hostfile; DeepSpeed 0.15.2 to 0.19.6 does not check that, and the rank will not find the device", slot, host.Name, len(host.Slots))})
		}
	}
}

func (c *selection) refuse(e *FilterError) {
	c.bad = multierror.Append(c.bad, e)
	c.bad.ErrorFormat = oneALine
}

func written(host Host) string {
	if len(host.Slots) == 0 {
		return host.Name + ":0, or the slots that it has"
	}
	slots := strings.Trim(fmt.Sprint(host.Slots), "[]") // numbers separated by spaces
	return host.Name + ":" + strings.ReplaceAll(slots, " ", ",")
}
