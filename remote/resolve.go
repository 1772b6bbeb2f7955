package remote

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// lookup resolves the host name, once.
func (a *attempt) lookup(ctx context.Context) ([]netip.Addr, *Error) {
	family := strings.Replace(a.target.network, "tcp", "ip", 1)
	addresses, err := a.client.names.LookupNetIP(ctx, family, a.target.host)
	if len(addresses) > 0 {
		return addresses, nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) {
		return nil, &Error{Stage: StageResolve, Cause: Interrupted, Err: cause}
	}
	words := resolverWords(err)
	if ctx.Err() != nil {
		words = fmt.Sprintf("the resolver did not answer in time (waited %s)", a.after())
		err = fmt.Errorf("lookup %s: %s", a.target.host, words)
	}
	return nil, &Error{Stage: StageResolve, Cause: NameUnknown, Err: err, Detail: map[string]string{
		"name": a.target.host, "resolver": words,
	}}
}
