package once

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Outcome is what is known about a write that was sent.
type Outcome uint8

// The outcomes.
const (
	Accepted Outcome = iota
	Refused          // for good
	NotRun           // certainly, so it may be sent again
	Unknown          // it may have been executed
)

// Failed is the outcome of a write that a [Transport] got no answer to.
func Failed(err error) Outcome {
	if errors.Is(err, ErrNotSent) {
		return NotRun
	}
	return Unknown
}

// Answered is what a status says about a write. Where writes are repeated, 409 may
// mean that the key is in use by the attempt before. A 503 proves nothing, with
// Retry-After or without: whoever sends it may stand before the one who executes.
func Answered(status int, repeated bool) Outcome {
	switch {
	case status >= 200 && status <= 299:
		return Accepted
	case status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return NotRun
	case status == http.StatusRequestTimeout, status >= 500, status == http.StatusConflict && repeated:
		return Unknown
	}
	return Refused
}

// RetryAfter is how long a response says to wait, in seconds or as a date, and a
// year at most. 0 if it says nothing.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(min(max(n, 0), 366*24*3600)) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}
