package metrics_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/dynamodb/dynamodbtest"
	dynamolimits "github.com/sluice-go/sluice/dynamodb/limitstore"
	"github.com/sluice-go/sluice/metrics"
)

// TestDynamoDB: the page that explains the figures of DynamoDB names those that there are.
func TestDynamoDB(t *testing.T) {
	store, err := dynamolimits.Open(t.Context(), dynamodb.Config{Address: dynamodbtest.Start(t).Table(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	demand := sluice.Demand{Key: sluice.Key{Entity: "alice", Limit: "rpm"}, Limit: sluice.Per(10, time.Hour)}
	for range 3 { // not there; full before; in use
		if _, err := sluice.New(store).Take(t.Context(), demand); err != nil {
			t.Fatal(err)
		}
	}
	if err := testutil.CollectAndCompare(metrics.DynamoDB(store), strings.NewReader(`
# HELP sluice_dynamodb_conflicts_total Writes that others have come before, and that were decided again.
# TYPE sluice_dynamodb_conflicts_total counter
sluice_dynamodb_conflicts_total 0
# HELP sluice_dynamodb_speculations_total Takes that were written without a read, and such writes whose condition failed.
# TYPE sluice_dynamodb_speculations_total counter
sluice_dynamodb_speculations_total{outcome="missed"} 1
sluice_dynamodb_speculations_total{outcome="taken"} 2
`), "sluice_dynamodb_conflicts_total", "sluice_dynamodb_speculations_total"); err != nil {
		t.Error(err)
	}
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	families, err := gather(metrics.DynamoDB(store))
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(families))
	var explained []string
	for _, m := range regexp.MustCompile("`(sluice_dynamodb_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		explained = append(explained, m[1])
	}
	slices.Sort(explained)
	if explained = slices.Compact(explained); !slices.Equal(names, explained) {
		t.Errorf("docs/operations.md explains %q, and there are %q", explained, names)
	}
}
