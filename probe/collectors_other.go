//go:build !linux

package probe

// linuxCollectors are none: another system can launch, but not be a node.
var linuxCollectors []collector
