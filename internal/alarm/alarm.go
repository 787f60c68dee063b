// Package alarm posts the lines of the log that somebody should hear of to a
// webhook. Nothing waits for it: lines wait in a bounded queue, and those that
// find it full are dropped and counted.
//
// A post is a JSON object, signed as Standard Webhooks says: the header
// Webhook-Signature has the HMAC of id, time and body.
package alarm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/background"
	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/webhook"
)

// Lines are the messages that are posted.
var Lines = []string{
	"bucket near its limit", "store state changed", "sanction begins", "sanction lifted",
	"policy rejected; the previous one stays in effect", "memory pressure begins", "memory pressure is over",
}

const (
	mostWaiting = 256
	attempts    = 6
	timeout     = 5 * time.Second
	farewell    = 5 * time.Second // for what waits when the process ends
)

var pauses = backoff.Pauses{First: time.Second, Max: 30 * time.Second}

// Config configures a [Hook].
type Config struct {
	// URL is where alarms are posted to.
	URL string

	// Secret signs them. Empty means that they are not signed. One that begins
	// with whsec_ is in base64, as Standard Webhooks writes it.
	Secret string

	// Private allows addresses that only this machine or network can reach.
	Private bool

	// Log gets what cannot be posted.
	Log *slog.Logger
}

// Hook posts alarms. A nil Hook posts none.
type Hook struct {
	config Config
	keys   [][]byte
	client *http.Client
	queue  chan post
	work   *background.Work

	posted, failed, dropped atomic.Int64
}

type post struct {
	id   string
	body []byte
}

// Stats are counts since Open.
type Stats struct{ Posted, Failed, Dropped int64 }

// Open begins to post what [Hook.Handler] sees.
func Open(config Config) (*Hook, error) {
	to, err := url.Parse(config.URL)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return nil, errors.New("the webhook must be an address that begins with https:// or http://") // it may have a secret in it
	}
	literal := webhook.Public("", net.JoinHostPort(to.Hostname(), "1"), nil) // a name shows when it is looked up
	if !config.Private && (to.Hostname() == "localhost" || errors.Is(literal, webhook.ErrPrivate)) {
		return nil, errors.New("only this machine or network can reach the webhook's address: allow that, or name a public one")
	}
	h := &Hook{config: config, queue: make(chan post, mostWaiting), work: background.New()}
	if config.Secret != "" {
		key, err := webhook.Key(config.Secret)
		if err != nil {
			return nil, fmt.Errorf("the webhook's secret: %w", err)
		}
		h.keys = [][]byte{key}
	}
	dialer := &net.Dialer{Timeout: timeout}
	if !config.Private {
		dialer.Control = webhook.Public
	}
	h.client = &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: timeout, MaxIdleConns: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	h.work.Go(h.run)
	return h, nil
}

// Close posts what waits, once each and for 5 s at most, and ends.
func (h *Hook) Close() error {
	if h == nil {
		return nil
	}
	err := h.work.Close()
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	for {
		select {
		case p := <-h.queue:
			_, failed := h.send(ctx, p)
			h.count(failed)
		default:
			h.client.CloseIdleConnections()
			return err
		}
	}
}

// Stats returns the counts.
func (h *Hook) Stats() Stats {
	if h == nil {
		return Stats{}
	}
	return Stats{Posted: h.posted.Load(), Failed: h.failed.Load(), Dropped: h.dropped.Load()}
}

func (h *Hook) run() {
	for {
		select {
		case <-h.work.Life().Done():
			return
		case p := <-h.queue:
			h.count(h.deliver(p))
		}
	}
}

func (h *Hook) count(err error) {
	if err == nil {
		h.posted.Add(1)
		return
	}
	h.failed.Add(1)
	h.config.Log.Warn("an alarm was not posted", "error", err)
}

// deliver posts until it is taken, refused for good, or was tried often enough.
func (h *Hook) deliver(p post) error {
	for n := 1; ; n++ {
		again, err := h.send(h.work.Life(), p)
		if err == nil || !again || n == attempts || !pauses.Wait(h.work.Life(), n) {
			return err
		}
	}
}

// send posts once, and reports whether trying again may help.
func (h *Hook) send(ctx context.Context, p post) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.config.URL, bytes.NewReader(p.body))
	if err != nil {
		return false, errors.New("the address is not valid")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "sluice")
	webhook.Sign(r.Header, p.id, time.Now(), p.body, h.keys...)
	response, err := h.client.Do(r)
	if err != nil {
		var plain *url.Error
		if errors.As(err, &plain) {
			err = plain.Err // without the address, which may have a secret in it
		}
		return !errors.Is(err, webhook.ErrPrivate), err
	}
	defer response.Body.Close()                                //nolint:errcheck // nothing is written
	io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) //nolint:errcheck // so that the connection can be used again
	if response.StatusCode/100 == 2 {
		return false, nil
	}
	again = response.StatusCode >= 500 || response.StatusCode == http.StatusRequestTimeout || response.StatusCode == http.StatusTooManyRequests
	return again, fmt.Errorf("it answered %s", response.Status)
}

// Handler returns a handler that posts the [Lines], and passes everything on.
func (h *Hook) Handler(next slog.Handler) slog.Handler { return &handler{Handler: next, hook: h} }

type handler struct {
	slog.Handler
	hook  *Hook
	attrs []slog.Attr
}

// Handle is part of [slog.Handler].
func (a *handler) Handle(ctx context.Context, r slog.Record) error {
	if slices.Contains(Lines, r.Message) {
		var body bytes.Buffer
		if err := slog.NewJSONHandler(&body, nil).WithAttrs(a.attrs).Handle(ctx, r); err == nil {
			select {
			case a.hook.queue <- post{rand.Text(), bytes.TrimSpace(body.Bytes())}:
			default:
				a.hook.dropped.Add(1)
			}
		}
	}
	return a.Handler.Handle(ctx, r)
}

// WithAttrs is part of [slog.Handler].
func (a *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{a.Handler.WithAttrs(attrs), a.hook, append(slices.Clip(a.attrs), attrs...)}
}

// WithGroup is part of [slog.Handler].
func (a *handler) WithGroup(name string) slog.Handler {
	return &handler{a.Handler.WithGroup(name), a.hook, a.attrs}
}
