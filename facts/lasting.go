package facts

import (
	"reflect"
	"slices"
	"strings"
)

// Momentary are the sections that tell of one moment or of one launch only: what the nodes
// tried of each other, how their clocks stood, the files that the launch names, which are
// the user's work and rightly change, and how its names resolve. Drift compares none of
// them, and a normalized snapshot has none.
var Momentary = []Section{
	SectionFiles, SectionNames, SectionClock, SectionMesh, SectionPeerMesh, SectionRendezvous, SectionPeerRendezvous,
	SectionLogins, SectionThroughput, SectionRehearsal,
}

// passing are facts that are a node's own and change without anybody's doing: by a new
// boot, by an interface that another program makes anew, by a new release of preflight, by
// errors that ECC counts. Paths are as those of
// Comparable, without the keys of lists.
var passing = map[string]bool{
	"host.boot_id":                         true,
	"host.net_namespace":                   true,
	"net.interfaces.index":                 true,
	"ssh.path":                             true,
	"nvml.cards.ecc.aggregate_corrected":   true,
	"nvml.cards.ecc.aggregate_uncorrected": true,
	"nvml.cards.retired.single_bit":        true,
	"nvml.cards.retired.double_bit":        true,
	"nvml.cards.remapped.corrected":        true,
	"nvml.cards.remapped.uncorrected":      true,
}

// kept are facts that count as volatile and are kept none the less: they say why others
// are not known, and nobody may take those for proven absent.
var kept = map[string]bool{"nvml.cards.refused": true}

// PlaceWorkDir is the Place.Role of the directory that the launch works in.
const PlaceWorkDir = "workdir"

// Lasting is the facts as JSON's maps and lists, without those that change by
// themselves or with the launch: nothing volatile, no section of Momentary, nothing of
// the working directory. The same node gives the same at any time, until somebody changes
// it. What is left out is not there at all, so that nobody takes a zero for a value; read
// back into Facts it is zero.
func (f *Facts) Lasting() map[string]any {
	most := *f
	if f.Disk != nil {
		disk := *f.Disk
		disk.Places = slices.DeleteFunc(slices.Clone(disk.Places), func(p Place) bool { return p.Role == PlaceWorkDir })
		most.Disk = &disk
	}
	if f.Python != nil {
		python := *f.Python
		python.SysPath = f.Python.InstalledPath(f.WorkDir())
		most.Python = &python
	}
	for _, section := range Momentary {
		most.Take(section, Facts{})
	}
	if f.Net != nil {
		net := *f.Net
		net.Interfaces = slices.DeleteFunc(slices.Clone(net.Interfaces), Interface.Passing)
		most.Net = &net
	}
	tree, _ := lasting("", reflect.ValueOf(most)).(map[string]any)
	if net, seen := tree[string(SectionNet)].(map[string]any); seen {
		withoutContainers(net, most.Net.Interfaces)
	}
	return tree
}

// LastingOfHead is what drift compares of the launching machine: what it launches with, and
// the id by which it is known for the same machine. What else is there, such as the shell's
// variables, is that of whoever launches.
func (f *Facts) LastingOfHead() map[string]any {
	all, tree := f.Lasting(), map[string]any{}
	if launcher, seen := all[string(SectionLauncher)]; seen {
		tree[string(SectionLauncher)] = launcher
	}
	if f.Host != nil && f.Host.MachineID != "" {
		tree[string(SectionHost)] = map[string]any{"machine_id": f.Host.MachineID}
	}
	return tree
}

// WorkDir is where the launch works on the node, "" for not seen.
func (f *Facts) WorkDir() string {
	if f.Files == nil {
		return ""
	}
	return f.Files.WorkDir.Path
}

// InstalledPath is sys.path without the directories that launches were started from: the
// interpreter puts its own first, and launches come from many.
func (p *Python) InstalledPath(launched ...string) []string {
	return slices.DeleteFunc(slices.Clone(p.SysPath), func(directory string) bool { return slices.Contains(launched, directory) })
}

// withoutContainers takes out of the interfaces what follows the containers that run.
func withoutContainers(net map[string]any, interfaces []Interface) {
	list, _ := net["interfaces"].([]any)
	for at, entry := range list {
		if of, is := entry.(map[string]any); is && interfaces[at].ForContainers() {
			of["addresses"] = interfaces[at].IPv4() // an IPv6 one is made of the MAC
			for _, follows := range []string{"running", "speed", "mac"} {
				delete(of, follows)
			}
		}
	}
}

// lasting is one value; path is the way to it without the keys of lists.
func lasting(path string, v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return lasting(path, v.Elem())
	case reflect.Struct:
		tree := map[string]any{}
		lastingFields(tree, path, v)
		return tree
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = lasting(path, v.Index(i))
		}
		return list
	}
	return v.Interface() // a map of plain values is written in the order of its keys
}

// lastingFields adds the fields of a struct, those of an embedded one as its own.
func lastingFields(tree map[string]any, path string, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		at := join(path, name)
		switch {
		case field.Anonymous && name == "":
			lastingFields(tree, path, v.Field(i))
		case field.Tag.Get("fact") == "volatile" && !kept[at], passing[at], options == "omitempty" && empty(v.Field(i)):
		default:
			tree[name] = lasting(at, v.Field(i))
		}
	}
}

// empty is what JSON's omitempty leaves out.
func empty(v reflect.Value) bool {
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		return v.Len() == 0
	}
	return v.Kind() != reflect.Struct && v.IsZero()
}
