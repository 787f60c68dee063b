package bucket_test

import (
	"testing"

	"github.com/sluice-go/sluice/bucket"
)

func TestGrant(t *testing.T) {
	for _, c := range []struct{ want, room, grant int64 }{
		{5000, 9000, 5000}, {5000, 5000, 5000}, {5500, 5600, 5500}, // all of it, whole or not
		{5500, 5499, 5000}, {5000, 1999, 1000}, // whole tokens
		{5000, 999, 1000}, {5000, 0, 1000}, {5000, -3000, 1000}, {300, 200, 300}, // what it would be content with
	} {
		if got := bucket.Grant(c.want, c.room); got != c.grant {
			t.Errorf("up to %d where there is room for %d: %d, want %d", c.want, c.room, got, c.grant)
		}
	}
}
