package identity

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

const (
	keySetEvery   = time.Hour
	keySetTimeout = 3 * time.Second
	// unknownEvery bounds how often tokens with made-up key ids make us ask
	// the issuer; meanwhile they are refused without waiting.
	unknownEvery = 30 * time.Second
)

// keySetURL follows a key set that changes. Keys that were fetched once stay
// in use while the issuer cannot be reached.
func keySetURL(ctx context.Context, address string, log *slog.Logger) (jwt.Keyfunc, error) {
	set, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{address}, keyfunc.Override{
		Client: &http.Client{
			Timeout:   keySetTimeout,
			Transport: limitedAnswers{http.DefaultTransport},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // the address was checked, another one was not
			},
		},
		HTTPTimeout:       keySetTimeout,
		RateLimitWaitMax:  keySetTimeout,
		RefreshInterval:   keySetEvery,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(unknownEvery), 1),
		RefreshErrorHandlerFunc: func(u string) func(context.Context, error) {
			return func(ctx context.Context, err error) {
				log.WarnContext(ctx, "cannot fetch the key set", "url", u, "error", err)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return asymmetric(set.Keyfunc), nil
}

// limitedAnswers cuts off answers that are too long to be a key set.
type limitedAnswers struct{ http.RoundTripper }

func (l limitedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = &limitedBody{Reader: io.LimitReader(response.Body, maxKeyFile), Closer: response.Body}
	}
	return response, err
}

type limitedBody struct {
	io.Reader
	io.Closer
}
