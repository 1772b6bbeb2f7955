// SPDX-License-Identifier: Apache-2.0

package outputs

import (
	"testing"

	"preflight/report/formats"

	"github.com/google/go-cmp/cmp"
)

// asked holds the flags that say where a report is written.
type asked struct {
	Format              string
	Output              []string
	GoodHosts, BadHosts string
}

func TestOutputs(t *testing.T) {
	for _, c := range []struct {
		asked asked
		want  []string // each entry is FORMAT PATH
	}{
		{asked{}, []string{"text -"}},
		{asked{Output: []string{""}}, []string{"text -"}},
		{asked{Output: []string{"-"}}, []string{"text -"}},
		{asked{Output: []string{"a.txt"}}, []string{"text a.txt"}},
		{asked{Output: []string{"./a=b.txt"}}, []string{"text ./a=b.txt"}},
		{asked{Output: []string{"a.b=c"}}, []string{"text a.b=c"}},
		{asked{Output: []string{"./json=b"}}, []string{"text ./json=b"}},
		{asked{Output: []string{"xml=b,prom=a"}}, []string{"junit b", "prometheus a", "text -"}},
		{asked{Output: []string{"json=a,pdf=b"}}, []string{"json a", "pdf b", "text -"}},
		{asked{Output: []string{"json=/dev/stdout"}}, []string{"json -"}},
		{asked{Output: []string{"a,b"}}, []string{"text a,b"}},
		{asked{Output: []string{"a.html", "b.HTM", "c.json", "d.xml", "e.md", "f.prom", "g.log"}}, []string{"html a.html", "html b.HTM", "json c.json", "junit d.xml", "markdown e.md", "prometheus f.prom", "text g.log"}},
		{asked{Output: []string{"a.b/c", "text=d.html"}}, []string{"text a.b/c", "text d.html"}},
		{asked{Output: []string{"a.html"}}, []string{"html a.html", "text -"}},
		{asked{Output: []string{"a.html", "b"}, Format: "junit"}, []string{"html a.html", "junit b"}},
		{asked{Output: []string{"markdown", "html=b"}}, []string{"text markdown", "html b"}}, // a later check refuses this
		{asked{Output: []string{"a,json=b,c,junit=d=e"}}, []string{"text a", "json b,c", "junit d=e"}},
		{asked{Output: []string{"json=a", "junit=b"}}, []string{"json a", "junit b", "text -"}},
		{asked{Output: []string{"json=a"}, Format: "json"}, []string{"json a"}},
		{asked{Output: []string{"a"}, Format: "junit"}, []string{"junit a"}},
		{asked{Output: []string{"json=-", "junit=b"}}, []string{"json -", "junit b"}},
		{asked{GoodHosts: "g", BadHosts: "b", Output: []string{"json=j"}}, []string{"json j", "good-hosts g", "bad-hosts b", "text -"}},
	} {
		if c.asked.Format == "" {
			c.asked.Format = "text"
		}
		var got []string
		for _, o := range Of(c.asked.Format, "-o", c.asked.Output, Output{"", formats.GoodHosts, c.asked.GoodHosts}, Output{"", formats.BadHosts, c.asked.BadHosts}) {
			got = append(got, o.Format+" "+o.Path)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("-o %q --format %s (-want +got):\n%s", c.asked.Output, c.asked.Format, diff)
		}
	}
}
