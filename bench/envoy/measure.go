package envoy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// Figures are what a server did under load.
type Figures struct {
	PerSecond float64
	Median    time.Duration
	P99       time.Duration
	Over      float64 // share of the answers

	// Processor time of each decision, which a busy machine changes least.
	Server, Redis, Callers time.Duration
}

// processorTime is what a process has used so far, where the system tells.
func processorTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	var ticks int64
	for _, f := range fields[11:13] { // in user mode and for system calls
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// processID asks a Redis for its own.
func processID(address string) (pid int, err error) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "INFO server\r\nQUIT\r\n"); err != nil {
		return 0, err
	}
	info, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(info), "process_id:")
	number, _, _ := strings.Cut(rest, "\r")
	return strconv.Atoi(number)
}

// loadConnections is how many connections the callers share, as the threads
// of an Envoy do.
const loadConnections = 4

// measure asks a server as fast as it answers, by so many callers at once,
// about one of so many users at a time. server and redis are process ids.
func measure(address string, server, redis, callers, users int, duration time.Duration) (Figures, error) {
	var conns []*grpc.ClientConn
	for range loadConnections {
		conn, err := Dial(address)
		if err != nil {
			return Figures{}, err
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	requests := make([]*encoded, users)
	for i := range requests {
		var err error
		if requests[i], err = encode(loadRequest(i)); err != nil {
			return Figures{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), duration+10*time.Second)
	defer cancel()
	var over atomic.Int64
	latencies := make([][]time.Duration, callers)
	errs := make([]error, callers)
	var done sync.WaitGroup
	pids := [...]int{server, redis, os.Getpid()}
	var used [len(pids)]time.Duration
	for i, pid := range pids {
		used[i] = processorTime(pid)
	}
	began := time.Now()
	end := began.Add(duration)
	for n := range callers {
		done.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			var answer encoded
			for now := time.Now(); now.Before(end); {
				err := ask(ctx, conns[n%len(conns)], requests[r.IntN(users)], &answer)
				code := pb.RateLimitResponse_UNKNOWN
				if err == nil {
					code, err = answer.code()
				}
				if err != nil {
					errs[n] = err
					return
				}
				if code == pb.RateLimitResponse_OVER_LIMIT {
					over.Add(1)
				}
				then := time.Now()
				latencies[n] = append(latencies[n], then.Sub(now))
				now = then
			}
		})
	}
	done.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return Figures{}, err
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	for i, pid := range pids {
		used[i] = (processorTime(pid) - used[i]) / time.Duration(len(all))
	}
	return Figures{
		PerSecond: float64(len(all)) / took.Seconds(),
		Median:    all[len(all)/2],
		P99:       all[len(all)*99/100],
		Over:      float64(over.Load()) / float64(len(all)),
		Server:    used[0], Redis: used[1], Callers: used[2],
	}, nil
}

// loadRequest is what an Envoy typically asks: per user.
func loadRequest(user int) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{
		Domain: "load",
		Descriptors: []*api.RateLimitDescriptor{
			{Entries: []*api.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprint("user-", user)}}},
		},
	}
}

// loadFile limits each user, generously: what is measured is the way of a
// request that passes.
const loadFile = `domain: load
descriptors:
  - key: user
    rate_limit:
      unit: hour
      requests_per_unit: 1000000
`

const holdLine = "hold: true\n"
