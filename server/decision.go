package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/policy"
)

// Decisions are what the server writes most, so they are written by hand
// rather than by reflection. The fields are, of every decision, allowed or
// refused:
//
//	allowed, retryAfter (null for never), never, latestAfter, limit, entity,
//	rule, capacity and remaining (of the one that decided), granted, source,
//	reason, repeated, lease, results
//
// and of each result:
//
//	limit, entity, resource, rule, level, fits, retryAfter, never,
//	latestAfter, cost, consumed, returned, remaining, held, resetAfter, shadow,
//	announce
//
// Those that are mostly empty are left out where they are, and remaining, held
// and resetAfter where they are not known. Times are numbers of seconds.

// appendDecision writes d. lease is the id of the lease that it gave, if any. Who
// asks for their own entity is not told of limits that are not announced, but
// for when to come back.
func appendDecision(b []byte, d *sluice.Decision, lease string, own bool) []byte {
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed)
	b = appendWait(b, d.RetryAfter)
	if len(d.Results) > 0 && !(own && d.Demands[d.Decider].Unannounced) {
		demand, result := &d.Demands[d.Decider], &d.Results[d.Decider]
		if !d.Allowed {
			b = appendLatest(b, d.RetryAfter, result.LatestAfter)
		}
		b = append(b, `,"limit":`...)
		b = appendString(b, demand.Key.Limit)
		b = append(b, `,"entity":`...)
		b = appendString(b, demand.Key.Entity)
		b = append(b, `,"rule":`...)
		b = append(b, rules.text(&demand.Limit)...)
		b = append(b, `,"capacity":`...)
		b = appendTokens(b, demand.Limit.Capacity().Thousandths())
		if !result.Unknown {
			b = append(b, `,"remaining":`...)
			b = appendTokens(b, result.Remaining.Thousandths())
		}
	}
	b = append(b, `,"granted":`...)
	b = appendTokens(b, d.Granted.Thousandths())
	b = append(b, `,"source":`...)
	b = appendString(b, d.Source.String())
	if reason := d.Reason(); reason != "" {
		b = append(b, `,"reason":`...)
		b = appendString(b, reason)
	}
	if d.Repeated {
		b = append(b, `,"repeated":true`...)
	}
	if lease != "" {
		b = append(b, `,"lease":`...)
		b = appendString(b, lease)
	}
	b = append(b, `,"results":[`...)
	told := 0
	for i := range d.Results {
		if own && d.Demands[i].Unannounced {
			continue
		}
		if told++; told > 1 {
			b = append(b, ',')
		}
		b = appendResult(b, &d.Demands[i], &d.Results[i])
	}
	return append(b, "]}"...)
}

func appendResult(b []byte, demand *sluice.Demand, r *sluice.Result) []byte {
	b = append(b, `{"limit":`...)
	b = appendString(b, demand.Key.Limit)
	b = append(b, `,"entity":`...)
	b = appendString(b, demand.Key.Entity)
	if demand.Key.Resource != "" {
		b = append(b, `,"resource":`...)
		b = appendString(b, demand.Key.Resource)
	}
	b = append(b, `,"rule":`...)
	b = append(b, rules.text(&demand.Limit)...)
	b = append(b, `,"level":`...)
	b = appendString(b, demand.Level.String())
	b = append(b, `,"fits":`...)
	b = strconv.AppendBool(b, r.Fits)
	b = appendWait(b, r.RetryAfter)
	b = appendLatest(b, r.RetryAfter, r.LatestAfter)
	if demand.Cost.Thousandths() != 0 {
		b = append(b, `,"cost":`...)
		b = appendTokens(b, demand.Cost.Thousandths())
	}
	b = append(b, `,"consumed":`...)
	b = appendTokens(b, r.Consumed.Thousandths())
	if r.Consumed.Thousandths() < 0 {
		b = append(b, `,"returned":`...)
		b = appendTokens(b, r.Returned.Thousandths())
	}
	if !r.Unknown {
		b = append(b, `,"remaining":`...)
		b = appendTokens(b, r.Remaining.Thousandths())
		if r.Free != r.Remaining {
			b = append(b, `,"held":`...)
			b = appendTokens(b, r.Remaining.Thousandths()-r.Free.Thousandths())
		}
		b = append(b, `,"resetAfter":`...)
		b = appendSeconds(b, r.ResetAfter)
	}
	if demand.Shadow {
		b = append(b, `,"shadow":true`...)
	}
	if demand.Unannounced {
		b = append(b, `,"announce":false`...)
	}
	return append(b, '}')
}

// appendWait tells "not yet" from "never", for which there is no number.
func appendWait(b []byte, d time.Duration) []byte {
	if d == sluice.Never {
		return append(b, `,"retryAfter":null,"never":true`...)
	}
	b = append(b, `,"retryAfter":`...)
	b = appendSeconds(b, d)
	return append(b, `,"never":false`...)
}

// appendLatest tells when it passes at the latest, where that is later than when
// to try again.
func appendLatest(b []byte, retry, latest time.Duration) []byte {
	if latest <= retry || latest == sluice.Never {
		return b
	}
	b = append(b, `,"latestAfter":`...)
	return appendSeconds(b, latest)
}

// appendSeconds writes d as a number of seconds, rounded up to milliseconds.
// As tokens, it has three decimals at most.
func appendSeconds(b []byte, d time.Duration) []byte {
	return appendTokens(b, ceil(d, time.Millisecond))
}

// ceil is d in whole units, rounded up: who comes back then is not too early.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// appendTokens writes what Tokens.String does.
func appendTokens(b []byte, t int64) []byte {
	if t%sluice.Token == 0 {
		return strconv.AppendInt(b, (t / sluice.Token), 10)
	}
	return append(b, sluice.Thousandths(t).String()...)
}

// appendString writes a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) //nolint:errcheck // strings can always be written
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// rules remembers how limits are written, of which there are few.
var rules = ruleTexts{texts: map[sluice.Limit]string{}}

type ruleTexts struct {
	sync.RWMutex
	texts map[sluice.Limit]string
}

// maxRules bounds what is remembered: callers can bring limits of their own.
const maxRules = 4096

func (r *ruleTexts) text(l *sluice.Limit) string {
	r.RLock()
	text, ok := r.texts[*l]
	r.RUnlock()
	if ok {
		return text
	}
	text = string(appendString(nil, l.String()))
	r.Lock()
	defer r.Unlock()
	if len(r.texts) >= maxRules {
		clear(r.texts)
	}
	r.texts[*l] = text
	return text
}

// jsonType is shared by the headers of all decisions.
var jsonType = []string{"application/json"}

// ietfHeaders is for servers without a policy.
var ietfHeaders = policy.Policy{Headers: policy.Headers{IETF: true, Degraded: true}}

// writeDecision answers a take: 200 or 429, with the headers that the policy
// wants, as the middleware sends them, about the limits found. The call may be
// used again.
func (s *server) writeDecision(w http.ResponseWriter, scratch []byte, call *httplimit.Call, d *sluice.Decision, found *catalog.Resolution, allowed int, lease string, own bool) []byte {
	status := allowed
	if call.Outcome = httplimit.Allowed; !d.Allowed {
		status, call.Outcome = http.StatusTooManyRequests, httplimit.Refused
	}
	if call.Policy = &ietfHeaders; s.gate != nil {
		call.Policy = s.gate.Policy()
	}
	call.Decision, call.RetryAfter, call.Labels = *d, d.RetryAfter, found.Labels(call.Labels[:0], found.Subject.Resource)
	call.Headers(w.Header())
	call.Decision = sluice.Decision{}
	scratch = append(appendDecision(scratch[:0], d, lease, own), '\n')
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	w.Write(scratch) //nolint:errcheck // the client is gone
	return scratch
}

// writeSettled answers with a decision that is not about a take.
func writeSettled(w http.ResponseWriter, d *sluice.Decision, lease string, own bool) {
	writeJSON(w, http.StatusOK, "application/json", json.RawMessage(appendDecision(nil, d, lease, own)))
}
