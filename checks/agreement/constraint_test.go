// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"strings"
	"testing"

	"preflight/checks"
	"preflight/facts"
)

func described(t *testing.T, path string) facts.Description {
	t.Helper()
	s, err := readExpectation(checks.Expectation{Fact: path, Is: []string{absentWord}})
	if err != nil {
		t.Fatal(err)
	}
	return s.about
}

func TestConstraintsMet(t *testing.T) {
	const kernel, driver, torch, shm, mtu, memlock, open = "host.kernel", "nvml.driver", "python.torch.version", "shm.size", "net.interfaces.*.mtu", "limits.memlock.soft", "gpu.open_module"
	for _, c := range []struct {
		fact, is, value string
		want            bool
	}{
		{driver, ">=570.86", `"570.86"`, true},
		{driver, ">=570.86", `"570.86.15"`, true},
		{driver, ">=570.86", `"570.9"`, false}, // versions are compared as numbers, not as text
		{driver, ">=570.86", `"1000.1"`, true},
		{driver, ">570.86", `"570.86"`, false},
		{driver, "<580", `"579.99"`, true},
		{driver, "<580", `"580"`, false},
		{driver, "<=580", `"580.0"`, true},
		{driver, ">=550, <600", `"570"`, true},
		{driver, ">=550,<560", `"570"`, false},
		{driver, "==570", `"570.0"`, true},
		{driver, "570", `"570.0"`, true},
		{driver, "!=570", `"570.0"`, false},
		{driver, "!=570", `"571"`, true},
		{driver, ">=570", ``, false},
		{driver, ">=570", `""`, false},
		{driver, "!=570", ``, false}, // a missing fact meets only "absent"
		{driver, "absent", ``, true},
		{driver, "absent", `""`, true},
		{driver, "absent", `"570"`, false},
		{torch, "==2.5.1", `"2.5.1+cu124"`, true},
		{torch, "==2.5.1+cu124", `"2.5.1+cu124"`, true},
		{torch, "==2.5.1+cu124", `"2.5.1+cu121"`, false},
		{torch, "!=2.5.1+cu124", `"2.5.1+cu121"`, true},
		{torch, ">=2.5", `"2.5.0rc1"`, false},
		{torch, "main", `"main"`, true},
		{torch, "==2.5", `"main"`, false},
		{torch, ">=2.0", `"2.0.0.post1"`, true},
		{torch, "2.0", `"2.0.0.post1"`, true}, // a plain value allows all versions that begin with it
		{torch, "==2.0", `"2.0.0.post1"`, false},
		{torch, "2.5.1", `"2.5.1+cu124"`, true},
		{torch, "2.5.1", `"2.5.10"`, false},
		{torch, "2.5", `"2.5.1"`, true},
		{torch, "==2.5", `"2.5.1"`, false},
		{torch, "==2.5", `"2.5.0+cu124"`, true},
		{torch, "2.5.0", `"2.5.1"`, false},
		{torch, "2.5.0", `"2.5"`, true},
		{torch, "2.5", `"2.5.0rc1"`, false},
		{torch, "2.5", `"2.5.0.dev3"`, false},
		{torch, "2.5.0rc1", `"2.5.0rc1"`, true},
		{torch, "2.5.0rc1", `"2.5.0rc10"`, false},
		{torch, "2.5.1+cu124", `"2.5.1+cu121"`, false},
		{torch, "2.0.post1", `"2.0.0.post1"`, true},
		{torch, "2.0.post1", `"2.0.1.post1"`, false},
		{torch, "2.0.post1", `"2.0.0.post10"`, false},
		{torch, "2.0.post1", `"2.0"`, false},
		{torch, ">=0.14.5", `"0.14.5+dev"`, true}, // suffixes such as dev and post are recognised only as whole words
		{torch, "==1.2.0", `"1.2.0+cu124.postgres"`, true},
		{torch, "==1.2.0", `"1.2.0-postgres"`, true},
		{torch, "==1.2.0.post", `"1.2.0.post0"`, true},
		{torch, ">=1.2.0", `"1.2.0.dev-x86"`, false},
		{driver, "550.54", `"550.54.15"`, true},
		{driver, "550.54", `"550.540"`, false},
		{driver, "!=550.54", `"550.54.15"`, true},
		{torch, ">=2.0.0.post2", `"2.0.0.post10"`, true},
		{torch, ">=2.0", `"2.0.0.dev20240101"`, false},
		{torch, ">=2.0a0", `"2.0.0.dev20240101"`, false},
		{torch, ">=2.0rc2", `"2.0rc1"`, false},
		{torch, ">=2.0rc1", `"2.0b9"`, false},
		{torch, ">=2.0rc1", `"2.0"`, true},
		{torch, ">=1.13.0a0", `"1.13.0a0+gitunknown"`, true},
		{torch, ">=1.13", `"1.13.0a0+gitunknown"`, false},
		{torch, ">=2.6.0.dev2", `"2.6.0.dev10+cu126"`, true},
		{torch, ">=2.6.0.post1", `"2.6.0.post1.dev1"`, false},
		{torch, "3.1", `"3.10"`, false},
		{kernel, ">=6.18.44", `"6.18.44-fc-v657"`, true},
		{kernel, "6.8.0-45-generic", `"6.8.0-45-lowlatency"`, false},
		{kernel, "6.8.0-45", `"6.8.0-45-generic"`, true},
		{kernel, "6.8.0", `"6.8.0-45-generic"`, true},
		{kernel, "6.8.0-45", `"6.8.0-450-generic"`, false},
		{kernel, "5.14.0-427", `"5.14.0-427.13.1.el9_4.x86_64"`, true},
		{kernel, ">=6.6", `"6.6.0-rc3"`, false},
		{kernel, ">=5.14.0-362.13", `"5.14.0-362.8.1.el9_3.x86_64"`, false},
		{kernel, ">=5.15", `"5.15.167.4-microsoft-standard-WSL2"`, true},
		{kernel, ">=5.15", `"5.15.0-107-generic"`, true},
		{kernel, ">=5.15.0-100", `"5.15.0-91-generic"`, false},
		{kernel, "<6", `"5.15.0-107-generic"`, true},
		{shm, ">=16GiB", `17179869184`, true},
		{shm, ">=16GiB", `17179869183`, false},
		{shm, "==16GiB", `17179869184`, true},
		{shm, "<1GB", `999999999`, true},
		{shm, "1024", `1024`, true}, // plain numbers below 1024 need a unit
		{shm, "16B", `16`, true},
		{shm, "0", `0`, true},
		{mtu, "9000", `9000`, true},
		{mtu, "9000", `1500`, false},
		{mtu, ">=1500", `9000`, true},
		{mtu, ">=1500", ``, false},
		{"net.interfaces.*.speed", ">=100Gbit/s", `100000000000`, true},
		{"net.interfaces.*.speed", ">=100Gbit/s", `25000000000`, false},
		{"net.interfaces.*.speed", ">=12.5GB/s", `100000000000`, true},
		{"net.interfaces.*.speed", ">=12.5GB/s", `99000000000`, false},
		{memlock, ">=1GiB", `-1`, true},
		{memlock, "unlimited", `-1`, true},
		{memlock, "unlimited", `65536`, false},
		{open, "true", `true`, true},
		{open, "true", `false`, false},
		{open, "!=true", `false`, true},
		{"gpu.modules", "absent", ``, true},
		{"gpu.modules", "absent", `["nvidia"]`, false},
	} {
		about := described(t, c.fact)
		read, err := readConstraint(c.is, about)
		if err != nil {
			t.Errorf("%s %s: %v", c.fact, c.is, err)
			continue
		}
		if got, err := read.met(c.value, about); err != nil || got != c.want {
			t.Errorf("%s is %s: %s is %v (%v), want %v", c.fact, c.is, c.value, got, err, c.want)
		}
	}
}

// TestConstraintsUnclear checks that text that is not a version cannot be compared with a version.
func TestConstraintsUnclear(t *testing.T) {
	about := described(t, "host.libc")
	read, err := readConstraint(">=2.31", about)
	if err != nil {
		t.Fatal(err)
	}
	if met, err := read.met(`"glibc 2.35"`, about); err == nil || met {
		t.Errorf("glibc 2.35 >= 2.31: %v, and no error", met)
	}
}

func TestImpossibleExpectations(t *testing.T) {
	for _, c := range []struct{ fact, is, want string }{
		{"nvml.driver", ">=", "has no value after the operator"},
		{"nvml.driver", "", "has no value after the operator"},
		{"nvml.driver", "=>570", "has an unknown operator: use one of >= <= == != > <"},
		{"nvml.driver", "~>570", "has an unknown operator"},
		{"nvml.driver", "=570", "has an unknown operator"},
		{"nvml.driver", ">=570,", "has no value after the operator"},
		{"nvml.driver", "570.*", `* is not allowed in a value`},
		{"nvml.driver", ">=99999999999999999999", "is not a version"},
		{"nvml.driver", ">=newest", `"newest" is not a version`},
		{"nvml.driver", ">=580, <570", "is impossible: nothing is both >=580 and <570"},
		{"nvml.driver", ">570, <=570.0", "is impossible"},
		{"nvml.driver", "==570, !=570", "is impossible"},
		{"nvml.driver", "==570, ==571", "is impossible"},
		{"nvml.driver", ">=absent", `write "absent" without an operator`},
		{"shm.size", ">=lots", `"lots" is not a size: use a size such as`},
		{"shm.size", ">=2GiB, <2147483648", "is impossible"},
		{"shm.size", "unlimited", "is not a size"},
		{"shm.size", "16", "16 has no unit: write 16GiB, or 16B for bytes"},
		{"shm.size", ">=1023.5", "1023.5 has no unit"},
		{"shm.size", ">=9300000TiB", "is not a size"},
		{"net.interfaces.*.mtu", "jumbo", `"jumbo" is not a number, but net.interfaces.*.mtu is one`},
		{"net.interfaces.*.mtu", "NaN", "is not a number"},
		{"net.interfaces.*.speed", ">=100GB", `"100GB" is not a rate`},
		{"shm.size", "<0", "no whole number from 0 on fits"},
		{"shm.size", "==-1", "is impossible"},
		{"net.interfaces.*.mtu", ">5, <6", "is impossible"},
		{"net.interfaces.*.mtu", ">=5, <=5, !=5", "is impossible"},
		{"net.interfaces.*.mtu", "==1500.5", "is impossible"},
		{"limits.memlock.soft", ">unlimited", "is impossible"},
		{"nvml.cards.*.power.limit", "<0", "no number from 0 on fits"},
		{"gpu.open_module", "!=true, !=false", "true or false"},
		{"gpu.open_module", "yes", "must be true or false"},
		{"gpu.open_module", ">true", "must be true or false"},
		{"gpu.modules", "nvidia", `is a list: only "absent" can be expected`},
		{"gpux.driver", "570", `no fact "gpux.driver" to compare: did you mean "nvml.driver"?`},
		{"shm.sise", "1", `did you mean "shm.size"?`},
		{"net.interfaces.eth0.mtuu", "1", `did you mean "net.interfaces.*.mtu"?`},
		{"memory.available", "1", `no fact "memory.available"`}, // volatile facts cannot be stated
		{"python", "1", "no fact"},
		{"", "1", "no fact"},
		{"zzzzzzzzzzzzzzzz", "1", "preflight facts lists them"},
	} {
		err := ValidExpectation(checks.Expectation{Fact: c.fact, Is: []string{c.is}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s is %q: %v, want %q", c.fact, c.is, err, c.want)
		}
	}
	if err := ValidExpectation(checks.Expectation{Fact: "shm.size"}); err == nil {
		t.Error("an expectation that says nothing is valid")
	}
	for fact, is := range map[string]string{
		"ib.devices.*.numa_node": "-1", "limits.memlock.soft": "unlimited", "nvml.cards.*.power.limit": ">300, <301", "net.interfaces.*.mtu": ">5, <7", "shm.size": "<1B", "gpu.open_module": "!=true",
	} {
		if err := ValidExpectation(checks.Expectation{Fact: fact, Is: []string{is}}); err != nil {
			t.Errorf("%s: %v", fact, err)
		}
	}
	for _, possible := range []string{">=570, <580", ">=570, <=570", "!=570, !=571", ">=570, !=570", "==570, <571"} {
		if err := ValidExpectation(checks.Expectation{Fact: "nvml.driver", Is: []string{possible}}); err != nil {
			t.Errorf("%s: %v", possible, err)
		}
	}
}
