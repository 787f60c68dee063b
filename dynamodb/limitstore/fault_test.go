package limitstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/dynamodb/dynamodbtest"
	"github.com/sluice-go/sluice/internal/faultproxy"
)

func demand(entity, limit string, tokens int64) sluice.Demand {
	return sluice.Demand{Key: sluice.Key{Entity: entity, Resource: "api", Limit: "l"}, Limit: sluice.MustParse(limit), Cost: sluice.Tokens(tokens)}
}

// through is the address of a table by way of a proxy.
func through(tb testing.TB, address string, server *dynamodbtest.Server) (string, *faultproxy.Proxy) {
	tb.Helper()
	p := faultproxy.Start(tb, server.Addr())
	return dynamodbtest.Through(address, p.Addr()), p
}

// consumed returns what is consumed of a bucket, in tokens.
func consumed(tb testing.TB, s sluice.Store, entity string) int64 {
	tb.Helper()
	page, err := s.List(context.Background(), sluice.Query{Entity: entity})
	if err != nil {
		tb.Fatal(err)
	}
	if len(page.Buckets) == 0 {
		return 0
	}
	return page.Buckets[0].Consumed.Thousandths() / sluice.Token
}

// TestALostAnswerIsUnknownAndSentOnce loses the answers of writes that the server has
// carried out.
func TestALostAnswerIsUnknownAndSentOnce(t *testing.T) {
	server := dynamodbtest.Start(t)
	table := server.Table()
	direct := open(t, dynamodb.Config{Address: table})
	far, proxy := through(t, table, server)
	s := open(t, dynamodb.Config{Address: far, Timeout: time.Second})
	l := sluice.New(s)
	take := func() error {
		_, err := l.Take(context.Background(), demand("a", "1/hour burst 1000", 1))
		return err
	}
	for range 3 { // the connection is warm
		if err := take(); err != nil {
			t.Fatal(err)
		}
	}
	before := consumed(t, direct, "a")
	proxy.LoseAnswers(true)
	err := take()
	proxy.LoseAnswers(false)
	proxy.Cut()
	after := consumed(t, direct, "a")
	switch {
	case errors.Is(err, sluice.ErrUnknown) && after == before+1:
	case errors.Is(err, sluice.ErrUnavailable) && after == before: // the answer to a read was lost
	default:
		t.Errorf("%d consumed after %d, and the error is %v", after, before, err)
	}
	if err := take(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestCutConnectionsSpendOnce cuts connections again and again under load: what was
// reported is spent, and nothing else but what is unknown.
func TestCutConnectionsSpendOnce(t *testing.T) {
	server := dynamodbtest.Start(t)
	table := server.Table()
	far, proxy := through(t, table, server)
	s := open(t, dynamodb.Config{Address: far, Timeout: 5 * time.Second})
	var mu sync.Mutex
	var group sync.WaitGroup
	taken, unknown := int64(0), int64(0)
	for w := range 8 {
		group.Go(func() {
			l := sluice.New(s)
			for range 40 {
				d, err := l.Take(context.Background(), demand([]string{"a", "b"}[w%2], "1/hour burst 100000", 1))
				mu.Lock()
				switch {
				case err == nil && d.Allowed:
					taken++
				case errors.Is(err, sluice.ErrUnknown):
					unknown++
				case !errors.Is(err, sluice.ErrUnavailable):
					t.Errorf("%v", err)
				}
				if (taken+unknown)%20 == 19 {
					proxy.Cut()
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	direct := open(t, dynamodb.Config{Address: table})
	spent := consumed(t, direct, "a") + consumed(t, direct, "b")
	t.Logf("%d taken, %d unknown, %d spent", taken, unknown, spent)
	if spent < taken || spent > taken+unknown {
		t.Errorf("%d taken and %d unknown, but %d are spent", taken, unknown, spent)
	}
}

// TestNobodyThereIsUnavailable asks a server that has gone.
func TestNobodyThereIsUnavailable(t *testing.T) {
	server := dynamodbtest.Start(t)
	s := open(t, dynamodb.Config{Address: server.Table(), Timeout: 2 * time.Second})
	server.Kill()
	take := func() error {
		_, err := sluice.New(s).Take(context.Background(), demand("a", "10/hour", 1))
		return err
	}
	err := take()
	for range 10 { // connections that were open may break under a call, and nobody knows what came of it
		if errors.Is(err, sluice.ErrUnknown) {
			err = take()
		}
	}
	if !errors.Is(err, sluice.ErrUnavailable) || errors.Is(err, sluice.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	server.Restart()
	if err := take(); err != nil {
		t.Errorf("when it is back: %v", err)
	}
	if n := consumed(t, s, "a"); n != 1 {
		t.Errorf("%d consumed, want 1: nobody was there", n)
	}
}
