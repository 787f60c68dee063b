package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// stallWriter breaks a response off whose client takes nothing of it for too
// long. Time without anything to write does not count.
type stallWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// Unwrap is for [http.ResponseController], through which the proxy flushes
// and takes connections over.
func (w *stallWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *stallWriter) Write(b []byte) (int, error) {
	w.start()
	defer w.end()
	return w.ResponseWriter.Write(b)
}

// FlushError is called by [http.ResponseController].
func (w *stallWriter) FlushError() error {
	w.start()
	defer w.end()
	return w.control.Flush()
}

func (w *stallWriter) start() {
	w.control.SetWriteDeadline(time.Now().Add(w.timeout)) //nolint:errcheck // where it cannot be set, writing still works
}

// end takes the deadline back: in HTTP/2 it would end a stream that is idle,
// and in HTTP/1 stay for the next response.
func (w *stallWriter) end() {
	w.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // as above
}

// stallReader breaks a request off whose client sends nothing for too long, or
// so little that it would never end.
type stallReader struct {
	io.ReadCloser
	control  *http.ResponseController
	timeout  time.Duration
	rate     int // the fewest bytes a second, after timeout; below 1 for any
	exchange *exchange

	waited time.Duration // for the client
	read   int64         // bytes

	mu    sync.Mutex
	ended bool // the request was answered, and the deadline is not ours any more
}

func (r *stallReader) Read(b []byte) (int, error) {
	began := time.Now()
	deadline := began.Add(r.timeout)
	if r.rate > 0 {
		due := r.timeout + time.Duration(float64(r.read)/float64(r.rate)*float64(time.Second))
		deadline = began.Add(min(r.timeout, due-r.waited))
	}
	r.deadline(deadline)
	n, err := r.ReadCloser.Read(b)
	r.waited += time.Since(began)
	r.read += int64(n)
	var large *http.MaxBytesError
	switch {
	case err == nil || err == io.EOF || errors.As(err, &large):
	case !time.Now().Before(deadline):
		r.exchange.stalled.Store(true) // and the deadline stays: the rest will not come either
		return n, err
	default:
		r.exchange.broken.Store(true)
	}
	r.deadline(time.Time{})
	return n, err
}

func (r *stallReader) deadline(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.control.SetReadDeadline(at) //nolint:errcheck // where it cannot be set, reading still works
	}
}

// end is called when the request was answered. The proxy's transport may go on
// reading for a moment.
func (r *stallReader) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}
