package launch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The forms that torch accepts. Its \w knows all alphabets.
var (
	endpointHost = regexp.MustCompile(`^[\p{L}\p{N}_.:-]+$`)
	endpointPort = regexp.MustCompile(`^[0-9]{1,5}$`)
)

// ParseEndpoint reads the value of torchrun's --rdzv_endpoint, host[:port], as
// torchrun does: an IPv6 address may stand in brackets and must where a port is
// left out, nothing at all is localhost. The errors are torch's own. A host that
// is no name and no address passes here and fails when it is looked up.
//
// Source: pytorch/pytorch, elastic/rendezvous/utils.py,
// parse_rendezvous_endpoint, alike in 1.13, 2.4 and 2.15.
func ParseEndpoint(endpoint string, defaultPort int) (host string, port int, err error) {
	endpoint = strings.TrimSpace(endpoint)
	if endpoint == "" {
		return "localhost", defaultPort, nil
	}
	host, port = endpoint, defaultPort
	isBare := strings.HasPrefix(endpoint, "[") && strings.HasSuffix(endpoint, "]")
	if colon := strings.LastIndexByte(endpoint, ':'); colon >= 0 && !isBare {
		text := endpoint[colon+1:]
		number, err := strconv.Atoi(text)
		if err != nil || !endpointPort.MatchString(text) || number > 65535 {
			return "", 0, fmt.Errorf("ValueError: The port number of the rendezvous endpoint '%s' must be an integer between 0 and 65536", endpoint)
		}
		host, port = endpoint[:colon], number
	}
	if inside, opened := strings.CutPrefix(host, "["); opened && strings.HasSuffix(inside, "]") {
		host = strings.TrimSuffix(inside, "]")
	}
	if !endpointHost.MatchString(host) {
		return "", 0, fmt.Errorf("ValueError: The hostname of the rendezvous endpoint '%s' must be a dot-separated list of labels, an IPv4 address, or an IPv6 address", endpoint)
	}
	return host, port, nil
}
