package idempotency_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/redis/redistest"
)

// stored is a response as a node of some version writes it.
func stored(version byte, head, body string) []byte {
	b := append([]byte{version, byte(len(head))}, head...)
	return append(b, body...)
}

func TestResponsesOfOtherVersions(t *testing.T) {
	for name, test := range map[string]struct {
		text []byte
		want idempotency.Response
		bad  bool
	}{
		"today's": {
			text: stored(1, `{"status":201,"header":{"Etag":["1"]}}`, "body"),
			want: idempotency.Response{Status: 201, Header: http.Header{"Etag": {"1"}}, Body: []byte("body")},
		},
		"unknown fields": {
			text: stored(1, `{"status":201,"colour":{"red":[1,2]},"sum":null}`, "body"),
			want: idempotency.Response{Status: 201, Body: []byte("body")},
		},
		"unknown loss": {
			text: stored(1, `{"status":201,"lost":"eaten"}`, ""),
			want: idempotency.Response{Status: 201, Lost: "eaten", Body: []byte{}},
		},
		"a newer format": {text: []byte{2, 0xff, 0xff}, want: idempotency.Response{Lost: idempotency.Unreadable}},
		"nothing":        {bad: true},
		"zero":           {text: []byte{0}, bad: true},
		"cut off":        {text: stored(1, `{"status":201}`, "")[:5], bad: true},
		"no JSON":        {text: stored(1, "{", ""), bad: true},
	} {
		got, err := idempotency.DecodeResponse(test.text)
		if (err != nil) != test.bad || !test.bad && !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add(stored(1, `{"status":201,"header":{"Etag":["1"]}}`, "body"))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := idempotency.DecodeResponse(b)
		if err != nil || r.Lost == idempotency.Unreadable {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		r2, err := idempotency.DecodeResponse(again)
		if err != nil || r2.Status != r.Status || !bytes.Equal(r2.Body, r.Body) {
			t.Fatalf("%+v came back as %+v, %v", r, r2, err)
		}
	})
}

// Nodes of two versions share a Redis: the newer one has written fields and
// figures that this one does not know, and a format that it cannot read.
func TestNodesOfTwoVersions(t *testing.T) {
	server := redistest.Start(t)
	k := redisKeeper(t, server, 5*time.Second)
	var o orders
	h := k.Handler(always(prepared(t, nil)), &o)
	do(h, post("k", "x"))
	s := scope("k")
	id := s.ID()
	key := fmt.Sprintf("sluice:1:replay:{%x:%02x}%s", id.Namespace(), id[len(id)-1]%64, id)
	server.Must("HSET", key, "colour", "red")
	wantAnswer(t, do(h, post("k", "x")), 201, "# x", true)
	if got := server.Must("HGET", key, "colour"); got != "red" {
		t.Errorf("the field of the newer node is %q", got)
	}
	server.Must("HSET", key, "result", "\x02what is this")
	wantCode(t, do(h, post("k", "x")), 409, idempotency.CodeNotKept)
	wantCode(t, do(h, post("k", "y")), 422, idempotency.CodeReused)
	server.Must("HSET", key, "result", "\x01")
	wantCode(t, do(h, post("k", "x")), 409, idempotency.CodeNotKept)
	o.wantRuns(t, 1)
}

func TestRecordsShowNoTokens(t *testing.T) {
	token := idempotency.NewToken()
	b, err := json.Marshal(idempotency.Record{Token: token, Result: []byte("secret")})
	if err != nil || bytes.Contains(b, []byte(token.String())) || bytes.Contains(b, []byte("secret")) {
		t.Errorf("%s, %v", b, err)
	}
	text, err := token.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var again idempotency.Token
	if err := again.UnmarshalText(text); err != nil || again != token {
		t.Errorf("%s, %v", again, err)
	}
	if err := again.UnmarshalText([]byte("0g")); err == nil {
		t.Error("0g is no token")
	}
}

func TestNamesAreReadAsTheyAreWritten(t *testing.T) {
	type all struct {
		Verdict       idempotency.Verdict
		State         idempotency.State
		OnCrash       idempotency.OnCrash
		OnUnavailable idempotency.OnUnavailable
	}
	want := all{idempotency.Mismatch, idempotency.Failed, idempotency.OutcomeUnknown, idempotency.Refuse}
	b, err := json.Marshal(want)
	if err != nil || string(b) != `{"Verdict":"mismatch","State":"failed","OnCrash":"outcome_unknown","OnUnavailable":"refuse"}` {
		t.Fatalf("%s, %v", b, err)
	}
	var got all
	if err := json.Unmarshal(b, &got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"OnCrash":"shrug"}`), &got); err == nil {
		t.Error("shrug is read")
	}
}
