package limitstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// bare is about the least that a bucket in a script can be, for comparison: no
// remainder, one limit, and nothing in the answer but yes or no.
const bare = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local raw = redis.call('GET', KEYS[1])
local used, at = 0, now
if raw then
	used, at = struct.unpack('<dd', raw)
end
used = math.max(0, used - (now - at) * ARGV[1])
if used + 1 > tonumber(ARGV[2]) then
	return 0
end
redis.call('SET', KEYS[1], struct.pack('<dd', used + 1, now), 'PX', 10000)
return 1`

const (
	benchCallers = 64
	benchKeys    = 1_000_000
	benchSlice   = 4096 // takes of one variant before the next has its turn
)

// variant is one way to take.
type variant struct {
	name string
	take func(ctx context.Context, entity string) error

	speed    []float64 // takes a second, of each slice
	client   []float64 // microseconds of processor time a take, of each slice
	server   []float64
	commands float64
}

// BenchmarkTake compares ways to take, in slices one after the other, so that
// whatever else the machine does hits all of them alike. It reports the median
// speed of each, as a ratio to the bare script's, and the processor time that
// the server and this process spend on a take: the medians of all slices.
func BenchmarkTake(b *testing.B) {
	server := redistest.Start(b)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, DisableCache: true, DisableRetry: true, ForceSingleClient: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	sha := server.Must("SCRIPT", "LOAD", bare)
	all := []*variant{{name: "bare", take: func(ctx context.Context, entity string) error {
		return client.Do(ctx, client.B().Evalsha().Sha1(sha).Numkeys(1).Key(entity).Arg("0.001", "100000").Build()).Error()
	}}}
	for _, way := range []string{"separate", "combined"} {
		s := open(b, redis.Config{Address: server.URL(), Separate: way == "separate", Timeout: 10 * time.Second})
		all = append(all,
			&variant{name: way + "-1", take: takeOf(s, 1, false)},
			&variant{name: way + "-3", take: takeOf(s, 3, false)},
			&variant{name: way + "-3-keys", take: takeOf(s, 3, true)},
		)
	}
	for b.Loop() {
		for _, v := range all {
			v.slice(b, server)
		}
	}
	base := median(all[0].speed)
	for _, v := range all {
		n := float64(len(v.speed) * benchSlice)
		speed := median(v.speed)
		b.ReportMetric(speed/base, v.name+"-ratio")
		b.ReportMetric(median(v.server), v.name+"-server-µs")
		b.Logf("%-16s %8.0f takes/s, %.2f of bare; %4.1f µs of client, %4.1f µs of server, %.2f commands a take",
			v.name, speed, speed/base, median(v.client), median(v.server), v.commands/n)
	}
}

// takeOf takes from n limits: of one entity, or of one entity each.
func takeOf(s *limitstore.Store, n int, keys bool) func(context.Context, string) error {
	limit := sluice.MustParse("1000/s burst 100000")
	names := []string{"rps", "rpm", "rph"}
	resource := fmt.Sprint("api", n, keys)
	return func(ctx context.Context, entity string) error {
		t := sluice.Take{Demands: make([]sluice.Demand, n)}
		for i := range t.Demands {
			t.Demands[i] = sluice.Demand{Key: sluice.Key{Entity: entity, Resource: resource, Limit: names[i]}, Limit: limit}
			if keys {
				t.Demands[i].Key.Entity = names[i] + entity
			}
		}
		var d sluice.Decision
		return s.Take(ctx, &t, &d)
	}
}

func (v *variant) slice(b *testing.B, server *redistest.Server) {
	client, srv, commands := clientTime(), serverTime(server), commandCount(server)
	start := time.Now()
	var wg sync.WaitGroup
	for caller := range benchCallers {
		wg.Go(func() {
			z := rand.NewZipf(rand.New(rand.NewPCG(uint64(len(v.speed)), uint64(caller))), 1.1, 1, benchKeys-1)
			for range benchSlice / benchCallers {
				if err := v.take(context.Background(), "user-"+strconv.FormatUint(z.Uint64(), 10)); err != nil {
					b.Error(v.name, err)
					return
				}
			}
		})
	}
	wg.Wait()
	v.speed = append(v.speed, benchSlice/time.Since(start).Seconds())
	v.client = append(v.client, 1e6*(clientTime()-client)/benchSlice)
	v.server = append(v.server, 1e6*(serverTime(server)-srv)/benchSlice)
	v.commands += commandCount(server) - commands
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// clientTime is the processor time of this process.
func clientTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func serverTime(s *redistest.Server) float64 {
	info := s.Must("INFO", "cpu")
	return infoField(info, "used_cpu_user") + infoField(info, "used_cpu_sys")
}

// commandCount is how many scripts were run.
func commandCount(s *redistest.Server) float64 {
	info := s.Must("INFO", "commandstats")
	var n float64
	fmt.Sscanf(info[strings.Index(info+"cmdstat_evalsha:calls=0", "cmdstat_evalsha:")%(len(info)+1):], "cmdstat_evalsha:calls=%g", &n) //nolint:errcheck // 0 then
	return n
}

func infoField(info, name string) float64 {
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				panic(err)
			}
			return n
		}
	}
	return 0
}
