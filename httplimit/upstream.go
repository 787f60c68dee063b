package httplimit

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/sluice-go/sluice/internal/once"
)

// upstream is what an answer says about the other side's limits.
type upstream struct {
	retry     time.Duration // Retry-After; 0 if it has none
	remaining int64         // what is left of the scarcest quota
	reset     time.Duration // until that quota is renewed
	exhausted bool          // nothing is left
	scarce    bool          // less than a quarter of it is left
}

// readUpstream reads the headers of the draft, of its older versions, and
// those with X-, the first kind there is.
func readUpstream(r *http.Response, now time.Time) upstream {
	if date, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		now = date // its times are by its own clock
	}
	u, ok := readStructured(r.Header)
	if !ok {
		u, ok = readPlain(r.Header, "Ratelimit-", now)
	}
	if !ok {
		u, _ = readPlain(r.Header, "X-Ratelimit-", now)
	}
	u.retry = once.RetryAfter(r.Header, now)
	return u
}

func (u *upstream) weigh(remaining, quota int64, reset time.Duration) {
	u.remaining, u.reset = remaining, reset
	u.exhausted = remaining <= 0 && reset > 0
	u.scarce = remaining > 0 && quota > 0 && reset > 0 && remaining < quota/4
}

// readStructured reads RateLimit and RateLimit-Policy. Of several policies
// the one that leaves the least per second counts.
func readStructured(h http.Header) (u upstream, ok bool) {
	if len(h.Values("RateLimit")) == 0 {
		return u, false
	}
	list, err := httpsfv.UnmarshalList(h.Values("RateLimit"))
	if err != nil {
		return u, false
	}
	quotas := map[string]int64{}
	if policies, err := httpsfv.UnmarshalList(h.Values("RateLimit-Policy")); err == nil {
		for _, m := range policies {
			if name, item, isItem := named(m); isItem {
				quotas[name], _ = parameter(item, "q")
			}
		}
	}
	least := 0.0
	for _, m := range list {
		name, item, isItem := named(m)
		if !isItem {
			continue
		}
		r, hasR := parameter(item, "r")
		t, hasT := parameter(item, "t")
		if !hasR || !hasT || t <= 0 {
			continue
		}
		if rate := float64(r) / float64(t); !ok || rate < least {
			least, ok = rate, true
			u.weigh(r, quotas[name], seconds(t))
		}
	}
	return u, ok
}

func named(m httpsfv.Member) (string, httpsfv.Item, bool) {
	item, ok := m.(httpsfv.Item)
	name, isString := item.Value.(string)
	return name, item, ok && isString
}

func parameter(i httpsfv.Item, name string) (int64, bool) {
	if i.Params == nil {
		return 0, false
	}
	v, ok := i.Params.Get(name)
	n, isInt := v.(int64)
	return n, ok && isInt
}

// readPlain reads -Limit, -Remaining and -Reset. A reset beyond a hundred
// million is a date in seconds, for the services that send one.
func readPlain(h http.Header, prefix string, now time.Time) (u upstream, ok bool) {
	remaining, err1 := leading(h.Get(prefix + "Remaining"))
	reset, err2 := leading(h.Get(prefix + "Reset"))
	if err1 != nil || err2 != nil || remaining < 0 || reset < 0 {
		return u, false
	}
	quota, err := leading(h.Get(prefix + "Limit"))
	if err != nil {
		quota = 0
	}
	after := seconds(reset)
	if reset > 100_000_000 {
		after = max(time.Unix(reset, 0).Sub(now), 0)
	}
	u.weigh(remaining, quota, after)
	return u, true
}

// leading reads the number that a value begins with; "100, 100;w=60" is how
// older drafts write a limit, and some services send fractions.
func leading(s string) (int64, error) {
	if len(s) > 200 {
		return 0, errors.New("too long")
	}
	s = strings.TrimLeft(s, " ")
	end := strings.IndexFunc(s, func(c rune) bool { return c < '0' || c > '9' })
	if end >= 0 {
		s = s[:end]
	}
	return strconv.ParseInt(s, 10, 64)
}

// seconds is n seconds, and not more than a year, which is far beyond any
// pause that is believed.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), 366*24*3600)) * time.Second
}

// keepBody reads the body of a refusal, so that the connection can be used
// again while the refusal can still be given to the caller. It does not keep
// bodies that are not as short as refusals are.
func keepBody(r *http.Response) (*http.Response, bool) {
	const most = 64 << 10
	b, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	rest := r.Body
	if err != nil || len(b) > most {
		r.Body = &prefixedBody{Reader: io.MultiReader(bytes.NewReader(b), rest), Closer: rest}
		return r, false
	}
	rest.Close() //nolint:errcheck // it was read to its end
	r.Body = io.NopCloser(bytes.NewReader(b))
	return r, true
}

type prefixedBody struct {
	io.Reader
	io.Closer
}
