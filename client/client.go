package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/idempotency"
)

// Config configures a [Client].
type Config struct {
	// URL is the server's, such as http://127.0.0.1:8080. A path in it goes
	// before all others.
	URL string

	// Token is a token of the server or an API key. Empty sends none, which
	// is enough for a server that is open to its own machine.
	Token string

	// Namespace is the one that everything is about. Empty means the API
	// key's own, or the default one.
	Namespace string

	// HTTPClient sends the requests. The default keeps up to 64 connections
	// and follows no redirects.
	HTTPClient *http.Client
}

// Client is a client of a server. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	http      *http.Client
	token     string
	namespace string
	reason    string
}

// MaxResponse is the longest answer that is read, in bytes. Archives are
// streamed and have no such bound.
const MaxResponse = 64 << 20

// New returns a client of the server at config.URL. It does not connect yet.
func New(config Config) (*Client, error) {
	base, err := url.Parse(config.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" {
		return nil, &sluice.FieldError{Field: "client.url", Value: redacted(base), Reason: "must be an address such as http://127.0.0.1:8080"}
	}
	if base.User != nil {
		return nil, &sluice.FieldError{Field: "client.url", Value: redacted(base), Reason: "must not have a password in it: use the token"}
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	c := &Client{base: base, http: config.HTTPClient, token: config.Token, namespace: config.Namespace}
	if c.http == nil {
		c.http = defaultClient()
	}
	return c, nil
}

func redacted(u *url.URL) string {
	if u == nil {
		return "unreadable"
	}
	return u.Redacted()
}

// defaultClient leaves time-outs to contexts, except for a server that accepts a
// request and never answers: nothing waits there for longer than a minute.
func defaultClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: 90 * time.Second,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       90 * time.Second,
			ForceAttemptHTTP2:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// In returns a client for another namespace.
func (c *Client) In(namespace string) *Client {
	other := *c
	other.namespace = namespace
	return &other
}

// Because returns a client that gives a reason for its changes, which
// the server writes into its audit log.
func (c *Client) Because(reason string) *Client {
	other := *c
	other.reason = reason
	return &other
}

// call is one request.
type call struct {
	method  string
	path    []string // its segments, not escaped
	query   url.Values
	version int64  // the only one to be changed; 0 for any
	key     string // makes it safe to repeat; "" for none
	body    any    // written as JSON, or an io.Reader
}

// do sends a request and reads the answer into into, unless that is nil. The
// statuses also are answers and no errors, beside those below 300.
func (c *Client) do(ctx context.Context, r call, into any, also ...int) error {
	response, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, MaxResponse+1))
	if err != nil {
		return lost(err)
	}
	if len(text) > MaxResponse {
		return fmt.Errorf("%s %s: the answer is longer than %d bytes", r.method, response.Request.URL.Path, MaxResponse)
	}
	answered := response.StatusCode < 300
	for _, status := range also {
		answered = answered || response.StatusCode == status
	}
	if !answered {
		return problem(response, text)
	}
	if into == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %s: cannot read the answer: %w", r.method, response.Request.URL.Path, err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, r call) (*http.Response, error) {
	request, err := c.request(ctx, r)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, lost(err)
	}
	return response, nil
}

func (c *Client) request(ctx context.Context, r call) (*http.Request, error) {
	target := *c.base
	target.RawPath = c.base.EscapedPath()
	for _, segment := range r.path {
		if segment == "" {
			return nil, &sluice.FieldError{Field: "client.path", Value: strings.Join(r.path, "/"), Reason: "has an empty part: a name must not be empty"}
		}
		target.RawPath += "/" + escape(segment)
		target.Path += "/" + segment
	}
	target.RawQuery = r.query.Encode()
	var body io.Reader
	kind := ""
	switch b := r.body.(type) {
	case nil:
	case io.Reader:
		body, kind = b, "application/yaml"
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		body, kind = bytes.NewReader(text), "application/json"
	}
	request, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return nil, err
	}
	for _, h := range [...]struct{ name, value string }{
		{"Content-Type", kind}, {"Sluice-Namespace", c.namespace}, {"Sluice-Reason", c.reason},
	} {
		if h.value != "" {
			request.Header.Set(h.name, h.value)
		}
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if err := idempotency.SetKey(request.Header, r.key); err != nil {
		return nil, err
	}
	if r.version != 0 {
		request.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(r.version, 10)))
	}
	return request, nil
}

// escape makes one segment of a path of any name. Names of dots alone would
// be taken for steps in the path.
func escape(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// lost reports whether a request that got no answer can have had an effect.
func lost(err error) error {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: %w", sluice.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", sluice.ErrUnknown, err)
}

// Page asks for a part of a list.
type Page struct {
	Cursor string // "" begins; then what the page before gave as next
	Max    int    // 1 to 1000; 0 means 100
}

// values are the parameters of a list: pairs of names and values, of which
// empty ones are left out.
func (p Page) values(pairs ...string) url.Values {
	v := values(append(pairs, "cursor", p.Cursor)...)
	if p.Max != 0 {
		v.Set("max", strconv.Itoa(p.Max))
	}
	return v
}

func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// moment writes a time as a parameter; "" if it is zero.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// span writes a duration as bodies do; "" if it is 0.
func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// flag is a parameter that is there or not.
func flag(on bool) string {
	if on {
		return "true"
	}
	return ""
}

// OpenAPI returns the server's OpenAPI description.
func (c *Client) OpenAPI(ctx context.Context) ([]byte, error) {
	response, err := c.send(ctx, call{method: "GET", path: []string{"v1", "openapi.yaml"}})
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, MaxResponse))
	if err != nil {
		return nil, lost(err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, problem(response, text)
	}
	return text, nil
}

// Health returns nil if the server answers.
func (c *Client) Health(ctx context.Context) error {
	return c.do(ctx, call{method: "GET", path: []string{"healthz"}}, nil)
}

func at(segments ...string) []string { return append([]string{"v1"}, segments...) }

func get(query url.Values, segments ...string) call {
	return call{method: "GET", path: at(segments...), query: query}
}

func post(body any, segments ...string) call {
	return call{method: "POST", path: at(segments...), body: body}
}

func put(version int64, body any, segments ...string) call {
	return call{method: "PUT", path: at(segments...), version: version, body: body}
}

func remove(version int64, query url.Values, segments ...string) call {
	return call{method: "DELETE", path: at(segments...), version: version, query: query}
}

// ask sends a request and answers what comes back.
func ask[T any](ctx context.Context, c *Client, r call) (T, error) {
	var answer T
	err := c.do(ctx, r, &answer)
	return answer, err
}
