package grpclimit

import (
	"context"

	"google.golang.org/grpc"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/policy"
)

// PerIP returns the options of a server that allows each client address so many
// calls, such as "100/minute":
//
//	grpc.NewServer(grpclimit.PerIP("100/minute")...)
//
// The options are those of [httplimit.PerIP]; [httplimit.Refuse] has no effect
// here. It panics if the limit or an option is not valid.
func PerIP(limit string, options ...httplimit.Option) []grpc.ServerOption {
	return Limit(httplimit.MustOpen(policy.PerIP, limit, options...))
}

// PerKey is [PerIP] for each API key, in the call's metadata. It does not check
// keys; see [httplimit.PerKey].
func PerKey(limit string, options ...httplimit.Option) []grpc.ServerOption {
	return Limit(httplimit.MustOpen(policy.PerKey, limit, options...))
}

// Per is [PerIP] for each caller, whom name names. Calls for which it returns
// "" count for their address.
func Per(limit string, name func(context.Context) string, options ...httplimit.Option) []grpc.ServerOption {
	if name == nil {
		panic("grpclimit: Per: the function that names callers is nil")
	}
	identify := func(ctx context.Context, _ string) (entity, tier string) { return name(ctx), "" }
	return Limit(httplimit.MustOpen(policy.PerCaller, limit, options...), Identify(identify))
}

// Limit returns the options of a server whose calls and streams a gate decides.
func Limit(g *httplimit.Gate, options ...Option) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(Unary(g, options...)),
		grpc.ChainStreamInterceptor(Stream(g, options...)),
	}
}
