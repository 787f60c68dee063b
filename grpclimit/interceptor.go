package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

// Option changes what [Unary] and [Stream] do.
type Option func(*gate)

// gate decides calls.
type gate struct {
	*httplimit.Gate
	identify func(ctx context.Context, method string) (entity, tier string)
	refuse   func(ctx context.Context, c *httplimit.Call, err error) error
}

// Identify names who makes a call, and their tier, for programs that know it
// already. An empty entity leaves it to the gate.
func Identify(identify func(ctx context.Context, method string) (entity, tier string)) Option {
	return func(g *gate) { g.identify = identify }
}

// Refuse replaces the error that a call which does not pass ends with. It is
// given the one it would end with.
func Refuse(refuse func(ctx context.Context, c *httplimit.Call, err error) error) Option {
	return func(g *gate) { g.refuse = refuse }
}

func with(g *httplimit.Gate, options []Option) *gate {
	made := &gate{Gate: g}
	for _, o := range options {
		o(made)
	}
	return made
}

// Unary limits unary calls.
func Unary(g *httplimit.Gate, options ...Option) grpc.UnaryServerInterceptor {
	gate := with(g, options)
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		a, err := gate.admit(ctx, info.FullMethod)
		if err != nil {
			return nil, err
		}
		defer func() { a.end(a.served) }()
		if err := grpc.SetHeader(ctx, a.header); err != nil {
			return nil, err
		}
		response, err := next(a.ctx, request)
		a.served = true
		return response, err
	}
}

// Stream limits streams: opening one is a request. A limit of concurrency is
// held for as long as it is open.
func Stream(g *httplimit.Gate, options ...Option) grpc.StreamServerInterceptor {
	gate := with(g, options)
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		a, err := gate.admit(stream.Context(), info.FullMethod)
		if err != nil {
			return err
		}
		defer func() { a.end(a.served) }()
		if err := stream.SetHeader(a.header); err != nil {
			return err
		}
		err = next(server, &settlingStream{ServerStream: stream, ctx: a.ctx})
		a.served = true
		return err
	}
}

// settlingStream carries the context in which a cost can be set.
type settlingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *settlingStream) Context() context.Context { return s.ctx }

// admission is a call that has passed the gate. A handler that panics leaves
// it unserved, and what the call took is given back.
type admission struct {
	ctx    context.Context
	end    func(served bool)
	header metadata.MD
	served bool
}

// admit decides a call. An error is the status to answer.
func (g *gate) admit(ctx context.Context, method string) (*admission, error) {
	request := httplimit.Request{Method: http.MethodPost, Path: method}
	request.Header, request.Remote = origin(ctx)
	if g.identify != nil {
		request.Entity, request.Tier = g.identify(ctx, method)
	}
	c := new(httplimit.Call)
	g.Decide(ctx, &request, c)
	told := http.Header{}
	c.Headers(told)
	if !c.Outcome.Passes() {
		grpc.SetHeader(ctx, fields(told)) //nolint:errcheck // the status says the same
		err := refusal(c)
		if g.refuse != nil {
			err = g.refuse(ctx, c, err)
		}
		return nil, err
	}
	held, end := g.Hold(ctx, c)
	return &admission{ctx: held, end: end, header: fields(told)}, nil
}

// origin is the call's metadata as headers, and where it came from.
func origin(ctx context.Context) (http.Header, string) {
	remote := ""
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		remote = p.Addr.String()
	}
	md, _ := metadata.FromIncomingContext(ctx)
	header := make(http.Header, len(md))
	for name, values := range md {
		header[http.CanonicalHeaderKey(name)] = values
	}
	return header, remote
}

// fields are headers as metadata, whose names are in lower case.
func fields(h http.Header) metadata.MD {
	md := metadata.MD{}
	for name, values := range h {
		md.Append(name, values...)
	}
	return md
}

// refusal is the status of a call that does not pass.
func refusal(c *httplimit.Call) error {
	p := c.Problem()
	code := codes.ResourceExhausted
	switch c.Outcome {
	case httplimit.Unauthenticated:
		code = codes.Unauthenticated
	case httplimit.Denylisted:
		code = codes.PermissionDenied
	case httplimit.Forbidden:
		if code = codes.PermissionDenied; p.Status == http.StatusUnauthorized {
			code = codes.Unauthenticated
		}
	case httplimit.Unavailable:
		code = codes.Unavailable
		if errors.Is(c.Err, context.Canceled) {
			code = codes.Canceled
		}
	}
	info := &errdetails.ErrorInfo{Reason: p.Code, Domain: "sluice", Metadata: map[string]string{}}
	for name, value := range map[string]string{"tier": p.Tier, "limit": p.Limit, "rule": p.Rule} {
		if value != "" {
			info.Metadata[name] = value
		}
	}
	details := []protoadapt.MessageV1{info}
	if c.RetryAfter > 0 && c.RetryAfter != sluice.Never {
		after := c.RetryAfter.Round(time.Millisecond) // it is exact here, not in whole seconds
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(max(after, time.Millisecond))})
	}
	if len(p.Violated) > 0 {
		quota := &errdetails.QuotaFailure{}
		for _, limit := range p.Violated {
			i := slices.Index(c.Labels, limit)
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: limit, Description: violation(&c.Decision.Demands[i], &c.Decision.Results[i])})
		}
		details = append(details, quota)
	}
	help := &errdetails.Help{}
	if p.Docs != "" {
		help.Links = append(help.Links, &errdetails.Help_Link{Description: "documentation", Url: p.Docs})
	}
	if p.Upgrade != "" {
		help.Links = append(help.Links, &errdetails.Help_Link{Description: "upgrade", Url: p.Upgrade})
	}
	if len(help.Links) > 0 {
		details = append(details, help)
	}
	s := status.New(code, p.Message)
	if with, err := s.WithDetails(details...); err == nil {
		s = with
	}
	return s.Err()
}

// violation is what one limit says to a call that it has no room for.
func violation(d *sluice.Demand, r *sluice.Result) string {
	if r.RetryAfter == sluice.Never {
		return fmt.Sprintf("%s, level %s: a cost of %s can never pass", d.Limit, d.Level, d.Charge())
	}
	return fmt.Sprintf("%s, level %s: room in %s", d.Limit, d.Level, max(r.RetryAfter.Round(time.Millisecond), time.Millisecond))
}
