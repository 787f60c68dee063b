package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/once"
)

// Call is an outgoing call, such as a webhook. Name, Key and URL must be given.
type Call struct {
	// Tenant, Name and Key say which call it is: the same ones are the same
	// call, in every process. Name is the kind of it, such as
	// "order.created".
	Tenant, Name, Key string

	Method string // empty means POST
	URL    string
	Header http.Header
	Body   []byte

	// RepeatSafe says that the receiver honours the Idempotency-Key: a call that
	// may have been executed is sent again. Without it only a call that
	// certainly was not is.
	RepeatSafe bool

	// Client sends it. Nil means http.DefaultClient.
	Client *http.Client

	// Attempts is how often it is sent at most. 0 means 8.
	Attempts int

	// Timeout bounds one attempt. 0 means 10 s.
	Timeout time.Duration

	// Pause is how long to wait before the second attempt; it doubles from
	// then on, up to MaxPause. What the receiver says in Retry-After counts if
	// it is longer, also up to MaxPause. 0 means 1 s and 1 min.
	Pause, MaxPause time.Duration

	// Life is how long a claim stands unless it is extended: so long after a
	// crash nobody else sends. 0 means 30 s.
	Life time.Duration

	// TTL is how long the result is kept, and so for how long the call is not
	// made again. 0 means 7 days.
	TTL time.Duration
}

// Delivery is what became of a call.
type Delivery struct {
	Response        // of the receiver; Tries counts the attempts made for it
	Key      string // the Idempotency-Key that the receiver was sent
	Replayed bool   // it was delivered before; nothing was sent now
}

const (
	sendMethod   = "SEND" // of records: no request can have it
	sendAttempts = 8
	sendTimeout  = 10 * time.Second
	sendPause    = time.Second
	sendMaxPause = time.Minute
	sendTTL      = 7 * 24 * time.Hour
	sendBody     = 64 << 10 // kept of the receiver's answer
)

func (c Call) withDefaults() (Call, error) {
	setDefault(&c.Method, http.MethodPost)
	setDefault(&c.Client, http.DefaultClient)
	setDefault(&c.Attempts, sendAttempts)
	setDefault(&c.Timeout, sendTimeout)
	setDefault(&c.Pause, sendPause)
	setDefault(&c.MaxPause, max(sendMaxPause, c.Pause))
	setDefault(&c.TTL, sendTTL)
	setDefault(&c.Life, min(defaultLife, c.TTL))
	bad := func(field string, value any, reason string) error {
		return &sluice.FieldError{Field: "call." + field, Value: value, Reason: reason}
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return c, bad("url", c.URL, "must be a whole http or https URL")
	case c.Attempts < 1 || c.Attempts > 1000:
		return c, bad("attempts", c.Attempts, "must be 1 to 1000")
	case c.Timeout < 0:
		return c, bad("timeout", c.Timeout, "must be above 0")
	case c.Pause < 0 || c.MaxPause < c.Pause:
		return c, bad("pause", c.Pause, "must be above 0 and at most the longest")
	}
	return c, nil
}

func (c *Call) scope() Scope {
	return Scope{Tenant: c.Tenant, Method: sendMethod, Route: c.Name, Key: c.Key}
}

// derivedKey is what the receiver gets as Idempotency-Key: the same for each
// attempt in each process, and telling nothing of the tenant.
func (c *Call) derivedKey() string {
	s := c.scope()
	id := s.ID()
	sum := sha256.Sum256(append([]byte("sluice send 1"), id[:]...))
	return hex.EncodeToString(sum[:16])
}

func (c *Call) fingerprint() (f Fingerprint) {
	b := append(make([]byte, 0, 256+len(c.Body)), "sluice call 1"...)
	for _, part := range [...]string{c.Method, c.URL, c.Header.Get("Content-Type")} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(append(b, c.Body...))
}

// Send makes a call once, whichever process asks and however often. One attempt
// is under way at a time: if another process is at it, Send waits for what comes
// of that. Every attempt carries the same Idempotency-Key.
//
// An attempt of which nothing was sent, because there was no connection, and one
// that was answered 425 or 429 is repeated after a pause. If all of them fail, or
// the receiver refuses, the error wraps [ErrNotDelivered] and the delivery has
// the last answer, if there was one. That is recorded as well, but a later Send
// tries again.
//
// After an attempt that got no answer, or 408 or 5xx, and after a process that
// died between sending and recording, the call may have been executed. If it is
// RepeatSafe it is sent again, also after 409. Otherwise the error wraps
// [ErrOutcomeUnknown], now and whenever Send is called for it, until somebody has
// settled it: see [Keeper.Settle]. A key that was used for another call is
// [ErrMismatch].
//
// Nobody sends by himself after a crash: whoever wants a call to be made keeps
// asking until Send succeeds.
func Send(ctx context.Context, k *Keeper, call Call) (Delivery, error) {
	call, err := call.withDefaults()
	if err != nil {
		return Delivery{}, err
	}
	d := Delivery{Key: call.derivedKey()}
	claim := Claim{
		Scope: call.scope(), Token: NewToken(), Fingerprint: call.fingerprint(),
		Life: call.Life, TTL: call.TTL, TakeOver: call.RepeatSafe,
	}
	others := backoff.Pauses{First: 15 * time.Millisecond, Max: time.Second}
	for n := 1; ; n++ {
		a, err := k.Claim(ctx, claim)
		if err != nil {
			return d, fmt.Errorf("send %s: %w", call.Name, err)
		}
		switch {
		case a.Verdict.Held():
			return k.send(ctx, &call, &claim, d)
		case a.Verdict == Finished:
			d.Replayed = true
			d.Response, err = k.Replay(&a)
			return d, err
		case a.Verdict == Mismatch:
			return d, fmt.Errorf("send %s: %w", call.Name, ErrMismatch)
		case a.Verdict == Unknown:
			return d, fmt.Errorf("send %s: an earlier attempt was interrupted: %w", call.Name, ErrOutcomeUnknown)
		}
		if !others.Wait(ctx, n) {
			return d, fmt.Errorf("send %s: another process is at it: %w", call.Name, context.Cause(ctx))
		}
	}
}

// send makes attempts under a claim and records what comes of them.
func (k *Keeper) send(ctx context.Context, call *Call, claim *Claim, d Delivery) (Delivery, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	beat := k.beats(claim.Scope, claim.Token, claim.Life, 0, cancel)
	var got once.Outcome
	var err error
	pauses := backoff.Pauses{First: call.Pause, Max: call.MaxPause}
	for {
		d.Tries++
		k.seen.count(call.Tenant, func(s *Stats) { s.Tries++ })
		var after time.Duration
		got, after, err = d.attempt(ctx, call)
		if again := got == once.NotRun || got == once.Unknown && call.RepeatSafe; !again || d.Tries >= call.Attempts || ctx.Err() != nil {
			break
		}
		k.log.Info("idempotency: an outgoing call is sent again", "name", call.Name, "attempt", d.Tries, "error", err)
		if !backoff.Sleep(ctx, max(after, backoff.Jitter(pauses.After(d.Tries)))) {
			break
		}
	}
	beat.stop()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	record, done := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer done()
	if got == once.Unknown && !call.RepeatSafe {
		k.lapse(ctx, claim.Scope, claim.Token)
		return d, fmt.Errorf("send %s: %w: %w", call.Name, ErrOutcomeUnknown, err)
	}
	if err != nil {
		failed := k.finish(record, claim.Scope, claim.Token, Failed, &d.Response, call.TTL)
		return d, fmt.Errorf("send %s: %w: %w", call.Name, ErrNotDelivered, errors.Join(err, failed))
	}
	k.seen.count(call.Tenant, func(s *Stats) { s.Sent++ })
	if err := k.finish(record, claim.Scope, claim.Token, Done, &d.Response, call.TTL); errors.Is(err, ErrLost) {
		k.log.Warn("idempotency: an outgoing call was delivered after its claim was lost", "name", call.Name)
	} else if err != nil {
		k.log.Error("idempotency: a delivery could not be recorded; it is tried again", "name", call.Name, "error", err)
		k.settleLater(claim.Scope, claim.Token, &d.Response, call.TTL)
	}
	return d, nil
}

// attempt sends once.
func (d *Delivery) attempt(ctx context.Context, call *Call) (got once.Outcome, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, call.Method, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return once.Refused, 0, err
	}
	if call.Header != nil {
		req.Header = call.Header.Clone()
	}
	req.Header.Set(KeyHeader, `"`+d.Key+`"`)
	client := *call.Client
	client.Transport = once.Transport{Base: client.Transport}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // it would be sent again, or without its body
	resp, err := client.Do(req)
	if err != nil {
		return once.Failed(err), 0, err
	}
	defer resp.Body.Close()
	// The answer is in the status; a body that breaks off does not change it.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, sendBody))
	d.Status, d.Body, d.Header = resp.StatusCode, body, nil
	if kind := resp.Header.Get("Content-Type"); kind != "" {
		d.Header = http.Header{"Content-Type": {kind}}
	}
	if got = once.Answered(d.Status, call.RepeatSafe); got == once.Accepted {
		return got, 0, nil
	}
	return got, min(once.RetryAfter(resp.Header, time.Now()), call.MaxPause), fmt.Errorf("the receiver answered %d", d.Status)
}
