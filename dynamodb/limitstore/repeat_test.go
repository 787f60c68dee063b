package limitstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/dynamodb/dynamodbtest"
)

// TestARefusalIsOfAnIDThatIsNotCharged has the receipt of a take read before another
// node charges it, and the bucket afterwards: a batch is not read at one moment.
func TestARefusalIsOfAnIDThatIsNotCharged(t *testing.T) {
	for name, again := range map[string]sluice.Take{"take": {}, "peek": {Peek: true}} {
		t.Run(name, func(t *testing.T) {
			server := dynamodbtest.Start(t)
			table := server.Table()
			all := demand("a", "1/hour burst 10", 10)
			again.ID, again.Demands = "once", []sluice.Demand{all}
			first := sluice.Take{ID: again.ID, Demands: again.Demands}
			var d sluice.Decision
			if err := sluice.New(open(t, dynamodb.Config{Address: table})).Decide(context.Background(), &first, &d); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			proxy, hidden := hideReceiptOnce(t, server)
			s := open(t, dynamodb.Config{Address: dynamodbtest.Through(table, proxy)})
			err := sluice.New(s).Decide(context.Background(), &again, &d)
			if err != nil || !d.Allowed || !d.Repeated {
				t.Errorf("%+v, %v; want the first answer", d, err)
			}
			if !hidden.Load() {
				t.Error("the receipt was never hidden")
			}
		})
	}
}

// hideReceiptOnce returns the address of a proxy that leaves the receipt out of the first
// batch that has one.
func hideReceiptOnce(t *testing.T, server *dynamodbtest.Server) (addr string, hidden *atomic.Bool) {
	t.Helper()
	hidden = &atomic.Bool{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Addr()})
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.Header.Get("X-Amz-Target"), ".BatchGetItem") {
			return nil
		}
		var body struct {
			Responses       map[string][]map[string]map[string]any
			UnprocessedKeys map[string]any
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return err
		}
		for table, items := range body.Responses {
			body.Responses[table] = slices.DeleteFunc(items, func(item map[string]map[string]any) bool {
				return item[dynamodb.SK]["S"] == "#RECEIPT" && hidden.CompareAndSwap(false, true)
			})
		}
		text, err := json.Marshal(body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		r.ContentLength = int64(len(text))
		r.Header.Set("Content-Length", strconv.Itoa(len(text)))
		r.Header.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(text)), 10))
		return err
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	return front.Listener.Addr().String(), hidden
}
