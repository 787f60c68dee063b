package idempotency

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"unicode/utf8"
)

// Response is what is stored of an answer.
type Response struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`

	// Lost says why there is no body to replay, if there is none: the work was
	// done, but its response was not kept.
	Lost Loss `json:"lost,omitempty"`

	// Upload is there if the request's body was too large to be part of the
	// fingerprint as a whole.
	Upload *Upload `json:"upload,omitempty"`

	// Tries is how often an outgoing call was sent.
	Tries int `json:"tries,omitempty"`
}

// Loss is a reason for which a response was not kept.
type Loss string

const (
	// TooLarge is a response beyond what the route stores.
	TooLarge Loss = "too large"
	// Streamed is a stream of events.
	Streamed Loss = "streamed"
	// Hijacked is a connection that the handler took over.
	Hijacked Loss = "hijacked"
	// Aborted is a response that the handler broke off.
	Aborted Loss = "aborted"
	// Unreadable is a response stored by a newer version of this package.
	Unreadable Loss = "unreadable"
)

// Upload is what a run read of a body that was too large to be held: Read
// bytes with the digest Sum and, if Whole, nothing after them.
type Upload struct {
	Sum   Fingerprint `json:"sum"`
	Read  int64       `json:"read"`
	Whole bool        `json:"whole"`
}

// A stored response is a byte for the version, the length of the head, the head
// as JSON, and the body. A reader passes over fields of the head that it does
// not know, so new ones need no new version.
const formatVersion = 1

// MaxHead is the most that a stored response's headers may take up. Beyond it
// the response counts as too large.
const MaxHead = 32 << 10

var errFormat = errors.New("stored response: not in the known format")

// Encode writes r as stores keep it.
func (r *Response) Encode() ([]byte, error) {
	head := storedHead{Response: *r}
	head.Body = nil
	head.separate()
	text, err := json.Marshal(&head)
	if err != nil {
		return nil, fmt.Errorf("stored response: %w", err)
	}
	b := make([]byte, 0, 1+binary.MaxVarintLen64+len(text)+len(r.Body))
	b = append(b, formatVersion)
	b = binary.AppendUvarint(b, uint64(len(text)))
	b = append(b, text...)
	return append(b, r.Body...), nil
}

// DecodeResponse reads what Encode wrote. Of a newer version it only knows
// that there is a response: Lost is Unreadable.
func DecodeResponse(b []byte) (Response, error) {
	var r Response
	if len(b) == 0 || b[0] == 0 {
		return r, errFormat
	}
	if b[0] > formatVersion {
		r.Lost = Unreadable
		return r, nil
	}
	n, size := binary.Uvarint(b[1:])
	if size <= 0 || n > uint64(len(b)-1-size) {
		return r, errFormat
	}
	head, body := b[1+size:1+size+int(n)], b[1+size+int(n):]
	var stored storedHead
	if err := json.Unmarshal(head, &stored); err != nil {
		return r, fmt.Errorf("%w: %w", errFormat, err)
	}
	r = stored.Response
	for name, values := range stored.Raw {
		if r.Header == nil {
			r.Header = make(http.Header)
		}
		for _, v := range values {
			r.Header.Add(name, string(v))
		}
	}
	r.Body = body
	return r, nil
}

// storedHead is a response without its body. Raw has the headers that JSON
// would change, because they are not UTF-8.
type storedHead struct {
	Response
	Raw map[string][][]byte `json:"rawHeader,omitempty"`
}

func (h *storedHead) separate() {
	all := h.Header
	for name, values := range all {
		if !slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			continue
		}
		if h.Raw == nil {
			h.Raw, h.Header = make(map[string][][]byte), maps.Clone(all)
		}
		delete(h.Header, name)
		for _, v := range values {
			h.Raw[name] = append(h.Raw[name], []byte(v))
		}
	}
}
