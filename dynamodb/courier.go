package dynamodb

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// courier sends the requests of the SDK. It notes how far each one got, from which
// follows whether it can have had an effect, and looks at the time that the service
// tells.
type courier struct {
	db   *DB
	next dynamodb.HTTPClient
}

// progress is how far a request got.
type progress struct {
	signed  bool // the SDK has found credentials and written it
	written bool // a connection has it
}

type progressKey struct{}

// follow returns a context that notes how far the request made with it gets.
func follow(ctx context.Context) (context.Context, *progress) {
	p := &progress{}
	return context.WithValue(ctx, progressKey{}, p), p
}

func (c *courier) Do(r *http.Request) (*http.Response, error) {
	c.db.requests.Add(1)
	if p, ok := r.Context().Value(progressKey{}).(*progress); ok {
		p.signed = true
		// A request may be written from the moment at which it has a connection.
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { p.written = true },
		}))
	}
	asked := time.Now()
	response, err := c.next.Do(r)
	if err == nil {
		c.db.skew.saw(response.Header.Get("Date"), asked, time.Now(), c.db.Config.Log)
	}
	return response, err
}
