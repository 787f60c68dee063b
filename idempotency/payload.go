package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"net/http"
	"sync"
)

// payload is a request's body on its way to the handler. A small one is read
// as a whole. Of a large one the first part is, and the rest is passed on as
// the handler reads it, with a digest of all that went through.
type payload struct {
	head []byte
	rest io.ReadCloser // what comes after head; nil if nothing does

	mu     sync.Mutex // a proxy may read on while its handler returns
	digest hash.Hash
	read   int64
	whole  bool
}

// readPayload reads up to most bytes of a body, and one to see whether there
// are more.
func readPayload(r *http.Request, most int64) (*payload, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return &payload{}, nil
	}
	var b bytes.Buffer
	if r.ContentLength > 0 { // as announced, but a lie must not cost much
		b.Grow(int(min(r.ContentLength, most, 64<<10)) + bytes.MinRead)
	}
	n, err := b.ReadFrom(io.LimitReader(r.Body, most+1))
	if err != nil {
		return nil, err
	}
	p := &payload{head: b.Bytes()}
	if n <= most {
		return p, nil
	}
	p.rest = r.Body
	p.digest = sha256.New()
	p.digest.Write(p.head) //nolint:errcheck // a digest takes everything
	p.read = n
	return p, nil
}

// fingerprint is the digest of a request: of all of it, or of the first part of
// its body, if that is large.
func (p *payload) fingerprint(r *http.Request, route *Route) (f Fingerprint) {
	h := sha256.New()
	credential := ""
	if route.Credential != nil {
		credential = route.Credential(r)
	}
	b := append(make([]byte, 0, 512), "sluice request 1"...)
	for _, part := range [...]string{
		// The path says which order it is; the route is the same for all.
		r.Method, route.Name, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type"), credential,
	} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	kind := byte('w') // whole
	if p.rest != nil {
		kind = 'p' // part
	}
	h.Write(append(b, kind)) //nolint:errcheck // a digest takes everything
	h.Write(p.head)          //nolint:errcheck // a digest takes everything
	h.Sum(f[:0])
	return f
}

// body is what the handler reads from.
func (p *payload) body(r *http.Request) io.ReadCloser {
	switch {
	case p.rest != nil:
		return &struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(p.head), p), p.rest}
	case r.Body == nil || r.Body == http.NoBody:
		return r.Body
	}
	return &struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(p.head), r.Body}
}

// Read reads what comes after the head.
func (p *payload) Read(b []byte) (int, error) {
	n, err := p.rest.Read(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.digest.Write(b[:n]) //nolint:errcheck // a digest takes everything
	p.read += int64(n)
	p.whole = p.whole || errors.Is(err, io.EOF)
	return n, err
}

// upload is what was read of a large body so far.
func (p *payload) upload() *Upload {
	if p.rest == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := &Upload{Read: p.read, Whole: p.whole}
	p.digest.Sum(u.Sum[:0])
	return u
}

// matches reads as much of the body as the run did that u is of, and reports
// whether it is the same.
func (p *payload) matches(u *Upload) (bool, error) {
	if p.rest == nil || u == nil {
		return p.rest == nil && u == nil, nil
	}
	if _, err := io.CopyN(io.Discard, p, u.Read-p.read); err != nil {
		if errors.Is(err, io.EOF) {
			return false, nil // it is shorter
		}
		return false, err
	}
	if u.Whole {
		switch _, err := io.CopyN(io.Discard, p, 1); {
		case err == nil:
			return false, nil // it is longer
		case !errors.Is(err, io.EOF):
			return false, err
		}
	}
	return p.upload().Sum == u.Sum, nil
}
