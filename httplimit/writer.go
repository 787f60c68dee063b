package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/sluice-go/sluice"
)

// settlingWriter takes the headers that tell the real cost out of a response.
// It does what the writer below it can do.
type settlingWriter struct {
	http.ResponseWriter
	settlement *settlement
	wrote      bool
}

// Unwrap is for [http.ResponseController].
func (w *settlingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// headers reads and removes what tells the cost. After the header was sent,
// it finds trailers.
func (w *settlingWriter) headers() {
	h := w.Header()
	for _, rule := range w.settlement.rules {
		for _, name := range [...]string{rule.Header, http.TrailerPrefix + rule.Header} {
			values, ok := h[name]
			if !ok {
				continue
			}
			delete(h, name)
			cost := sluice.Thousandths(-1) // which is no cost; null would leave it as it is
			if len(values) == 0 || cost.UnmarshalJSON([]byte(values[len(values)-1])) != nil || !w.settlement.cost(rule.Limit, cost.Thousandths()) {
				w.settlement.gate.config.Log.Warn("cannot read the cost in a response", "header", rule.Header, "limit", rule.Limit)
			}
		}
	}
}

func (w *settlingWriter) WriteHeader(status int) {
	if !w.wrote && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.wrote = true
		w.headers()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *settlingWriter) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// begin is what a write without a status means.
func (w *settlingWriter) begin() {
	if !w.wrote {
		w.wrote = true
		w.headers()
	}
}

// ReadFrom keeps the way from file to socket short.
func (w *settlingWriter) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	return io.Copy(w.ResponseWriter, r)
}

// Flush is for handlers that do not use a [http.ResponseController].
func (w *settlingWriter) Flush() {
	w.begin()
	http.NewResponseController(w.ResponseWriter).Flush() //nolint:errcheck // Flush has no way to tell
}

// Hijack is for handlers that do not use a [http.ResponseController].
func (w *settlingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
