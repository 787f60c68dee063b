package world

import (
	"context"
	"net/url"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

func TestPostgres(t *testing.T) {
	address, err := url.Parse(postgrestest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	p := faultproxy.Start(t, address.Host)
	address.Host = p.Addr()
	live(t, []*faultproxy.Proxy{p}, func() (sluice.Store, error) {
		return limitstore.Open(context.Background(), postgres.Config{Address: address.String(), Log: guard.Log})
	})
}
