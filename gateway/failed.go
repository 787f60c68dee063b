package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/once"
)

// failed answers when there is no response to pass on. Unless it is certain that
// nothing was sent, a write may have been executed.
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, err error) {
	maybe := ""
	switch {
	case once.Safe(r.Method):
	case errors.Is(err, once.ErrNotSent):
		idempotency.MarkNotRun(r.Context())
		maybe = "; nothing was sent to it"
	default:
		idempotency.MarkUnknown(r.Context())
		maybe = "; the request may have been executed"
	}
	var large *http.MaxBytesError
	var timeout net.Error
	switch {
	case errors.As(err, &large):
		g.tooLarge(w)
		return
	case exchangeOf(r.Context()).stalled.Load():
		problem(w, http.StatusRequestTimeout, "ERR_CLIENT_TIMEOUT", "the request took too long to arrive")
		return
	case exchangeOf(r.Context()).broken.Load():
		problem(w, http.StatusBadRequest, "ERR_BAD_REQUEST", "the body of the request is malformed, or ends too soon")
		return
	case r.Context().Err() != nil && g.ctx.Err() == nil:
		// The client has gone, and nobody reads the answer.
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	g.config.Log.WarnContext(r.Context(), "no answer from the upstream", "request_id", exchangeOf(r.Context()).id, "error", err)
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		problem(w, http.StatusGatewayTimeout, "ERR_UPSTREAM_TIMEOUT", "the service behind this gateway took too long"+maybe)
		return
	}
	problem(w, http.StatusBadGateway, "ERR_UPSTREAM", "the service behind this gateway gave no answer"+maybe)
}

func (g *Gateway) tooLarge(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	problem(w, http.StatusRequestEntityTooLarge, "ERR_BODY_TOO_LARGE", fmt.Sprintf("the body must be at most %d bytes long", g.config.MaxBody))
}

func problem(w http.ResponseWriter, status int, code, message string) {
	body, err := json.Marshal(httplimit.Problem{
		Title: http.StatusText(status), Status: status, Detail: message, Code: code, Message: message,
	})
	if err != nil { // a Problem has nothing that cannot be written
		panic(err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) //nolint:errcheck // the client may have gone
}
