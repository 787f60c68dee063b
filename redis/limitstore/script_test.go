package limitstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestLuaFiles has a server compile each file by itself. All are in the script.
func TestLuaFiles(t *testing.T) {
	server := redistest.Start(t)
	files, err := luaFiles.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := luaFiles.ReadFile("lua/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Do("SCRIPT", "LOAD", string(text)); err != nil {
			t.Errorf("%s: %v", f.Name(), err)
		}
		if !strings.Contains(script, string(text)) {
			t.Errorf("%s is not in the script", f.Name())
		}
	}
}

// twin does the same to two sets of buckets: in one as the store does, and in
// the other by the general case of the script alone.
type twin struct {
	*testing.T
	*rand.Rand
	*Store
	server *redistest.Server
	now    time.Time
	seq    uint64
	holds  []sluice.HoldReturn
}

func newTwin(t *testing.T, seed uint64) *twin {
	server := redistest.Start(t)
	w := &twin{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), server: server, now: time.UnixMicro(1_800_000_000_000_000)}
	s, err := Open(t.Context(), redis.Config{Address: server.URL(), Timeout: 5 * time.Second, Clock: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // its server ends with it
	w.Store = s
	return w
}

// TestFastIsGeneral makes random takes, alone and several in one call, holds
// and returns, which the script decides fast, and compares every field of the
// answers and what is stored with what the general case makes of the same.
func TestFastIsGeneral(t *testing.T) {
	seed := rand.Uint64()
	w := newTwin(t, seed)
	fast, refused := 0, 0
	for step := range 3000 {
		w.tick()
		var got, want any
		var what string
		switch n := w.IntN(10); {
		case n < 7:
			takes := w.takes()
			what = fmt.Sprint(takes)
			got, want = w.decide(takes, "fast", &fast), w.decide(takes, "general", nil)
		case n < 9:
			q := w.holdRequest()
			what = fmt.Sprint(q)
			g := w.grant(q, "fast")
			if g.Amount.Thousandths() == 0 && g.RetryIn > 0 {
				refused++
			}
			got, want = g, w.grant(q, "general")
		case len(w.holds) > 0:
			i := w.IntN(len(w.holds))
			back := w.holds[i]
			back.Spent = sluice.Thousandths(w.Int64N(6000))
			what = fmt.Sprint(back)
			w.giveBack(back, "fast")
			w.giveBack(back, "general")
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d, step %d, %s:\nfast    %+v\ngeneral %+v", seed, step, what, got, want)
		}
		for _, entity := range entities {
			if a, b := w.record(entity, "fast"), w.record(entity, "general"); a != b {
				t.Fatalf("seed %d, step %d, %s: %s is\nfast    %q\ngeneral %q", seed, step, what, entity, a, b)
			}
		}
	}
	if fast < 1000 || refused < 50 {
		t.Errorf("%d takes were decided fast and %d holds refused: too few to compare", fast, refused)
	}
}

// Each entity has limits of its own: so many token buckets, a fixed window, or a
// bucket that is held.
var entities = []string{"1", "2", "3", "5", "window", "held"}

var bucketLimits = []string{"10/s burst 20", "7/3s burst 5", "100/minute burst 30", "3/7us burst 4", "1000/day burst 10"}

// tick lets time pass: none, a little, or a lot, and sometimes it goes back.
func (w *twin) tick() {
	d := []time.Duration{0, 0, 0, 10 * time.Microsecond, time.Millisecond, 100 * time.Millisecond, time.Second, time.Second, time.Minute, 24 * time.Hour}[w.IntN(10)]
	if d > 0 {
		d = time.Duration(w.Int64N(int64(d)))
	}
	if w.IntN(30) == 0 {
		d = -d / 100
	}
	w.now = w.now.Add(d).Truncate(time.Microsecond)
}

// demands asks for some of what an entity has.
func (w *twin) demands(entity string) []sluice.Demand {
	limits := bucketLimits[:1]
	switch entity {
	case "window":
		limits = []string{"10/minute fixed"}
	case "2", "3", "5":
		limits = bucketLimits[:entity[0]-'0']
	}
	all := make([]sluice.Demand, len(limits))
	for i, text := range limits {
		all[i] = sluice.Demand{
			Key: sluice.Key{Entity: entity, Limit: fmt.Sprint("l", i)}, Limit: sluice.MustParse(text), Cost: sluice.Thousandths(1 + w.Int64N(4000)),
		}
		all[i].CountRefused = entity == "window" && w.IntN(2) == 0
	}
	if w.IntN(20) == 0 { // other limits, and other costs than there can be
		all[0].Limit = sluice.MustParse("12/s burst 15")
		all[0].Cost = sluice.Thousandths(sluice.MaxThousandths)
	}
	return all
}

// takes are one or several, of one or several entities each.
func (w *twin) takes() []sluice.Take {
	takes := make([]sluice.Take, 1+w.IntN(2)*w.IntN(5))
	for i := range takes {
		order := w.Perm(len(entities))[:1+w.IntN(2)*w.IntN(3)]
		for _, e := range order {
			takes[i].Demands = append(takes[i].Demands, w.demands(entities[e])...)
		}
	}
	return takes
}

// decide makes takes in one call. It counts those decided fast.
func (w *twin) decide(takes []sluice.Take, namespace string, fast *int) []sluice.Decision {
	w.Helper()
	var j joiner
	j.numbers = map[string]byte{}
	batch := make([]*request, len(takes))
	for i := range takes {
		batch[i] = &request{}
		for d := range takes[i].Demands {
			takes[i].Demands[d].Key.Namespace = namespace
		}
		if err := w.add(batch[i], takes[i].Demands, 0); err != nil {
			w.Fatal(err)
		}
		w.general(batch[i], namespace)
	}
	all := batch[0]
	if len(batch) > 1 {
		j.join(batch)
		all = &j.all
	}
	reply, err := w.call(context.Background(), all.firstOfTakes(), all)
	if err != nil {
		w.Fatalf("%s: %v", namespace, err)
	}
	decisions := make([]sluice.Decision, len(takes))
	for i, r := range batch {
		size := replySize(reply, r)
		if fast != nil && reply[0]&states != 0 {
			*fast++
		}
		if err := readTake(reply[:size], r, &takes[i], &decisions[i]); err != nil {
			w.Fatalf("%s: %v", namespace, err)
		}
		decisions[i].Demands = nil
		reply = reply[size:]
	}
	return decisions
}

// general says of none of the arguments that it is simple.
func (w *twin) general(r *request, namespace string) {
	for i, arg := range r.args {
		if namespace == "general" {
			r.args[i] = string(arg[0]&^(simpleArg|windowedArg)) + arg[1:]
		}
	}
}

// holdRequest asks for tokens, mostly instead of those held before.
func (w *twin) holdRequest() sluice.HoldRequest {
	w.seq++
	d := w.demands("held")[0]
	q := sluice.HoldRequest{
		Key: d.Key, Limit: d.Limit, ID: sluice.HoldID{Node: 1 + w.Uint64N(2), Seq: w.seq}, TTL: time.Duration(1+w.IntN(3000)) * time.Millisecond,
		Min: sluice.Thousandths(w.Int64N(9000)), Max: sluice.Thousandths(9000 + w.Int64N(9000)), Spent: sluice.Thousandths(w.Int64N(6000)),
	}
	if n := len(w.holds); n > 0 && w.IntN(3) > 0 {
		q.Previous = w.holds[w.IntN(n)].ID
	}
	w.holds = append(w.holds, sluice.HoldReturn{Key: q.Key, Limit: q.Limit, ID: q.ID})
	if len(w.holds) > 4 {
		w.holds = w.holds[1:]
	}
	return q
}

func (w *twin) grant(q sluice.HoldRequest, namespace string) (g sluice.Grant) {
	w.Helper()
	q.Key.Namespace = namespace
	var r request
	if err := w.add(&r, []sluice.Demand{{Key: q.Key, Limit: q.Limit}}, 0); err != nil {
		w.Fatal(err)
	}
	w.general(&r, namespace)
	r.arg(holdArg(&q), &q.Key)
	reply, err := w.call(context.Background(), r.first(header(holding)), &r)
	if err != nil {
		w.Fatalf("%s: %v", namespace, err)
	}
	readGrant(reply[answerSize:], &g)
	return g
}

// giveBack returns a hold, in the general case after one of a record with two
// buckets: what comes after that is not decided fast.
func (w *twin) giveBack(back sluice.HoldReturn, namespace string) {
	w.Helper()
	back.Key.Namespace = namespace
	returns := []sluice.HoldReturn{back}
	if namespace == "general" {
		two := sluice.HoldReturn{Key: sluice.Key{Namespace: "two", Entity: "2", Limit: "l0"}}
		var r request
		demands := w.demands("2")
		for i := range demands {
			demands[i].Key.Namespace, demands[i].Cost = "two", sluice.Thousandths(1)
		}
		if err := w.add(&r, demands, 0); err != nil {
			w.Fatal(err)
		}
		if _, err := w.call(context.Background(), r.firstOfTakes(), &r); err != nil {
			w.Fatal(err)
		}
		returns = []sluice.HoldReturn{two, back}
	}
	if err := w.Return(context.Background(), returns); err != nil {
		w.Fatalf("%s: %v", namespace, err)
	}
}

// record is what is stored, except for how long at least.
func (w *twin) record(entity, namespace string) string {
	text := w.server.Must("GET", recordKey(&sluice.Key{Namespace: namespace, Entity: entity}))
	if len(text) < 9 {
		return text
	}
	return text[:1] + text[9:]
}

// TestFewAndManyLimits takes one limit of a record and then very many in one
// call.
func TestFewAndManyLimits(t *testing.T) {
	w := newTwin(t, 1)
	var many []sluice.Demand
	for i := range 60 {
		many = append(many, sluice.Demand{Key: sluice.Key{Entity: "e", Limit: fmt.Sprint(i)}, Limit: sluice.MustParse("10/s")})
	}
	for _, d := range w.decide([]sluice.Take{{Demands: many[:1:1]}, {Demands: many}}, "fast", nil) {
		if !d.Allowed {
			t.Errorf("%+v", d)
		}
	}
}
