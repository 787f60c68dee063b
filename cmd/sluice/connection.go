package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
)

// connection is which server a command asks, and as whom.
type connection struct {
	server, token, namespace string
	ca, cert, certKey        string

	client   *client.Client
	recorder *recorder
}

const defaultServer = "http://127.0.0.1:8080"

func (c *connection) define(f *pflag.FlagSet) {
	f.StringVar(&c.server, "server", defaultServer, "`URL` of the server")
	f.StringVar(&c.token, "token", "", "token or API `key`; @file reads it from a file")
	f.StringVar(&c.namespace, "namespace", "", "`name` of the namespace")
	f.StringVar(&c.ca, "ca", "", "`file` with certificates of authorities to trust")
	f.StringVar(&c.cert, "cert", "", "`file` with a certificate to present")
	f.StringVar(&c.certKey, "cert-key", "", "`file` with the key of that certificate")
}

// open makes the client. It records answers if they are to be printed as they
// are.
func (c *connection) open(records bool) error {
	c.server = cmp.Or(c.server, defaultServer)
	token, err := secret(c.token)
	if err != nil {
		return err
	}
	config, err := clientTLS("", c.ca, c.cert, c.certKey, slog.Default())
	if err != nil {
		return err
	}
	c.recorder = &recorder{on: records, next: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		TLSClientConfig:       config,
		ResponseHeaderTimeout: 90 * time.Second,
		ForceAttemptHTTP2:     true,
	}}
	c.client, err = client.New(client.Config{
		URL: c.server, Token: token, Namespace: c.namespace,
		HTTPClient: &http.Client{
			Transport:     c.recorder,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err != nil {
		return fmt.Errorf("--server %q: want an address such as %s", c.server, defaultServer)
	}
	return nil
}

// trouble says what an error of the client means to somebody at a terminal.
func (c *connection) trouble(err error) error {
	var answer *client.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w; give one with --token or SLUICE_TOKEN", err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%s does not answer: %w; start it with sluice serve, or say where it is with --server", c.server, dial.Err)
	case errors.Is(err, sluice.ErrUnknown):
		return fmt.Errorf("the answer was lost; the command may have taken effect: %w", err)
	}
	return err
}

// recorder remembers the last answer, so that --json prints what the server
// said and not what this program made of it.
type recorder struct {
	next http.RoundTripper
	on   bool
	last bytes.Buffer
}

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(q)
	if err == nil && r.on {
		r.last.Reset()
		response.Body = &tee{Reader: io.TeeReader(response.Body, &r.last), Closer: response.Body}
	}
	return response, err
}

type tee struct {
	io.Reader
	io.Closer
}

// printAnswer writes the server's last answer if JSON was asked for, and else
// forPeople; unless there was an error, which it returns.
func (c *call) printAnswer(err error, forPeople string) error {
	if err != nil {
		return err
	}
	var answer any = struct{}{}
	if c.recorder.last.Len() > 0 {
		answer = json.RawMessage(c.recorder.last.Bytes())
	}
	return c.print(answer, forPeople)
}

// done is printAnswer for changes that leave nothing to show.
func (c *call) done(err error, format string, args ...any) error {
	return c.printAnswer(err, fmt.Sprintf(format+"\n", args...))
}
