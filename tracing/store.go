package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-go/sluice"
)

// Store makes a span of each call of inner that belongs to a trace which is
// kept; others pass as they are. Name goes before the operation: "decide" for
// the store that a limiter asks, and "redis" for the one behind it make "decide
// take" and, inside it, "redis take". On a nil Tracing, it is inner.
//
// Spans tell the resource and the limit that decided, but not for whom.
func (t *Tracing) Store(name string, inner sluice.Store) sluice.Store {
	if t == nil {
		return inner
	}
	return &store{
		Store: inner, tracer: t.tracer, take: name + " take", adjust: name + " adjust", settle: name + " settle",
		reset: name + " reset", hold: name + " hold", giveBack: name + " return", list: name + " list",
	}
}

type store struct {
	sluice.Store
	tracer trace.Tracer

	take, adjust, settle, reset, hold, giveBack, list string // names of spans
}

var (
	_ sluice.Store   = (*store)(nil)
	_ sluice.Watcher = (*store)(nil)
)

// span begins one; nil if the trace is not kept.
func (s *store) span(ctx context.Context, name string) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	return s.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
}

func end(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, text(err.Error()))
	}
	span.End()
}

// Take asks the store. Its decision is not looked at after an error, because
// a store that gave no answer in time may still be writing it.
func (s *store) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	ctx, span := s.span(ctx, s.take)
	err := s.Store.Take(ctx, t, d)
	if span == nil {
		return err
	}
	if err == nil && len(d.Demands) > 0 {
		demand, _ := d.Deciding()
		span.SetAttributes(
			attribute.Bool("sluice.allowed", d.Allowed), attribute.String("sluice.source", d.Source.String()),
			attribute.Int("sluice.demands", len(d.Demands)), attribute.Bool("sluice.peek", t.Peek),
			attribute.String("sluice.resource", text(demand.Key.Resource)), attribute.String("sluice.limit", text(demand.Key.Limit)),
		)
		if t.Tier != "" {
			span.SetAttributes(attribute.String("sluice.tier", text(t.Tier)))
		}
		if !d.Allowed && d.RetryAfter != sluice.Never {
			span.SetAttributes(attribute.Int64("sluice.retry_after_ms", d.RetryAfter.Milliseconds()))
		}
	}
	end(span, err)
	return err
}

// Adjust asks the store.
func (s *store) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	ctx, span := s.span(ctx, s.adjust)
	err := s.Store.Adjust(ctx, changes, d)
	end(span, err)
	return err
}

// Settle asks the store.
func (s *store) Settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	ctx, span := s.span(ctx, s.settle)
	err := s.Store.Settle(ctx, st, d)
	if span != nil {
		span.SetAttributes(attribute.String("sluice.action", st.Action.String()))
	}
	end(span, err)
	return err
}

// Reset asks the store.
func (s *store) Reset(ctx context.Context, keys []sluice.Key) error {
	ctx, span := s.span(ctx, s.reset)
	err := s.Store.Reset(ctx, keys)
	end(span, err)
	return err
}

// Hold asks the store.
func (s *store) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	ctx, span := s.span(ctx, s.hold)
	err := s.Store.Hold(ctx, requests, grants)
	end(span, err)
	return err
}

// Return asks the store.
func (s *store) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	ctx, span := s.span(ctx, s.giveBack)
	err := s.Store.Return(ctx, returns)
	end(span, err)
	return err
}

// List asks the store.
func (s *store) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	ctx, span := s.span(ctx, s.list)
	page, err := s.Store.List(ctx, q)
	end(span, err)
	return page, err
}

// Watch passes on what the store can tell, if it can.
func (s *store) Watch(wake func(sluice.Key)) {
	if w, ok := s.Store.(sluice.Watcher); ok {
		w.Watch(wake)
	}
}
