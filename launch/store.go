package launch

import (
	"preflight/facts"
	"preflight/hostfile"
)

// GenerationOf is the store protocol of a torch release, the newest for "" and
// for what is no version.
//
// Source: pytorch/pytorch, TCPStoreBackend.hpp: VALIDATE came with pull request
// 107607, PING with 129261 and 129985.
func GenerationOf(torch string) facts.Generation {
	switch {
	case hostfile.Before(torch, "2.1"):
		return facts.GenerationLegacy
	case hostfile.Before(torch, "2.5"):
		return facts.GenerationValidates
	}
	return facts.GenerationPings
}

// Mixed is what happens when a client of one generation connects to a server of
// another, "" when they understand each other.
//
// Source: pytorch/pytorch, TCPStoreBackend.cpp and TCPStoreLibUvBackend.cpp.
func Mixed(client, server facts.Generation) string {
	switch {
	case client == server:
		return ""
	case client == facts.GenerationLegacy:
		return "the store takes a client without a greeting for a stranger: it closes the connection (Connection reset by peer), or with libuv never answers, so that the client hangs"
	case server == facts.GenerationLegacy:
		return "the store reads the client's greeting as a key of some terabytes: the connection is reset, or rank 0 runs out of memory, or both hang"
	case client == facts.GenerationPings:
		return "the store does not know the client's ping and closes the connection: the client tries again until its timeout (failed to connect/validate)"
	}
	return "" // a newer store knows all that a client of 2.1 to 2.4 asks
}
