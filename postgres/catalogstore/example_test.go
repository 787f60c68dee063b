package catalogstore_test

import (
	"context"
	"fmt"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/catalogstore"
)

// It needs a server, so it is not run here.
func ExampleOpen() {
	ctx := context.Background()
	store, err := catalogstore.Open(ctx, postgres.Config{Address: "postgres://app:secret@localhost/app"})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	limits, err := catalog.Open(ctx, catalog.Config{Store: store})
	if err != nil {
		panic(err)
	}
	defer limits.Close()
	fmt.Println(limits.Stats().Watching)
}
