package idempotency

import (
	"bufio"
	"maps"
	"mime"
	"net"
	"net/http"
	"strings"
)

// recorder stands between a handler and its client. It holds the response back
// until the result is stored, so that who has an answer can rely on it. If the
// handler flushes, or the response gets too large, it is passed on as it comes,
// and recorded as far as it can be.
//
// The client may go at any time. The handler does not see that: it is to
// finish, and its response is to be stored.
type recorder struct {
	w      http.ResponseWriter
	most   int64
	header http.Header // the handler's
	sent   http.Header // as it was when the status was written
	status int         // 0 before it is written
	body   []byte
	lost   Loss
	passed bool // the response is on its way

	// stream is called once, if the response turns into a stream or the
	// connection is taken over: nothing of it will be stored, and the handler
	// is to end with its client again.
	stream   func(status int, why Loss)
	streamed bool
}

func newRecorder(w http.ResponseWriter, most int64, stream func(int, Loss)) *recorder {
	return &recorder{w: w, most: most, header: w.Header().Clone(), stream: stream}
}

// Header is the handler's own until it is passed on.
func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = make(http.Header)
	}
	return r.header
}

// Unwrap lets http.ResponseController reach deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.w }

// WriteHeader notes the status. What is only informational goes on at once.
func (r *recorder) WriteHeader(status int) {
	if r.status != 0 || r.lost == Hijacked {
		return
	}
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		r.copyHeader(r.Header())
		r.w.WriteHeader(status)
		return
	}
	r.status, r.sent = status, r.Header().Clone()
	if kind, _, err := mime.ParseMediaType(r.sent.Get("Content-Type")); err == nil && strings.EqualFold(kind, "text/event-stream") {
		r.startStream(Streamed)
		r.pass()
	}
}

func (r *recorder) startStream(why Loss) {
	r.lost, r.body, r.streamed = why, nil, true
	r.stream(r.status, why)
}

// Write records and, if the response is on its way, passes on.
func (r *recorder) Write(b []byte) (int, error) {
	if r.lost == Hijacked {
		return 0, http.ErrHijacked
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.lost == "" && int64(len(r.body)+len(b)) > r.most {
		r.pass()
		r.lost, r.body = TooLarge, nil
	}
	if r.lost == "" {
		r.body = append(r.body, b...)
	}
	if !r.passed {
		return len(b), nil
	}
	n, err := r.w.Write(b)
	if r.streamed {
		return n, err
	}
	return len(b), nil
}

// FlushError passes on what there is.
func (r *recorder) FlushError() error {
	if r.lost == Hijacked {
		return http.ErrHijacked
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.pass()
	err := http.NewResponseController(r.w).Flush()
	if r.streamed {
		return err
	}
	return nil
}

// Flush is FlushError for those who do not look at errors.
func (r *recorder) Flush() {
	r.FlushError() //nolint:errcheck // the client may be gone
}

// Hijack hands the connection over to the handler.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.w).Hijack()
	if err == nil {
		if r.status == 0 {
			r.status = http.StatusOK // the handler writes its own; it has taken the work on
		}
		r.passed = true
		r.startStream(Hijacked)
	}
	return conn, rw, err
}

// pass sends on what was held back.
func (r *recorder) pass() {
	if r.passed {
		return
	}
	r.passed = true
	r.copyHeader(r.sent)
	r.w.WriteHeader(r.status)
	if len(r.body) > 0 {
		r.w.Write(r.body) //nolint:errcheck // the client may be gone
	}
}

func (r *recorder) copyHeader(from http.Header) {
	to := r.w.Header()
	maps.DeleteFunc(to, func(name string, _ []string) bool { _, ok := from[name]; return !ok })
	maps.Copy(to, from)
}

// finish sends what was held back, and the trailers.
func (r *recorder) finish() {
	if r.lost == Hijacked {
		return
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.pass()
	to := r.w.Header()
	for name, values := range r.Header() {
		if strings.HasPrefix(name, http.TrailerPrefix) || declared(r.sent, name) {
			to[name] = values
		}
	}
}

// declared reports whether a header was announced as a trailer.
func declared(h http.Header, name string) bool {
	for _, line := range h["Trailer"] {
		for part := range strings.SplitSeq(line, ",") {
			if http.CanonicalHeaderKey(strings.TrimSpace(part)) == name {
				return true
			}
		}
	}
	return false
}

// response is what can be stored of it.
func (r *recorder) response(route *Route) *Response {
	resp := &Response{Status: r.status, Lost: r.lost}
	header, ok := route.pick(r.sent)
	if !ok && resp.Lost == "" {
		resp.Lost = TooLarge
	}
	if resp.Lost == "" {
		resp.Header, resp.Body = header, r.body
	}
	return resp
}
