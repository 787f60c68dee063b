package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/background"
)

// DB is the connection of one job to a table, and what the job runs in the
// background. It is safe for concurrent use.
type DB struct {
	// Config is what the DB was opened with, defaults filled in. It must not be
	// changed.
	Config Config

	// Client sends requests. It does not repeat them: see [DB.Write].
	Client *dynamodb.Client

	// Table is the name of the table, as requests want it.
	Table *string

	*background.Work

	region   string
	requests atomic.Int64
	skew     skew
}

// Open connects to a table that [Setup] has made. It fails if the address is wrong,
// the table cannot be read or is of another version.
func Open(ctx context.Context, config Config) (*DB, error) {
	db, err := connect(ctx, config)
	if err != nil {
		return nil, err
	}
	if *db.Table == "" {
		return nil, errNoTable
	}
	if err := db.checkVersion(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// connect prepares a client. It sends nothing.
func connect(ctx context.Context, c Config) (*DB, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	at, err := parseAddress(c.Address)
	if err != nil {
		return nil, fmt.Errorf("dynamodb: address: %w", err)
	}
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 512, 512
		if c.TLS != nil {
			t.TLSClientConfig = c.TLS
		}
	})
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(transport),
		// Whether a request may be repeated is for this package to know.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
	}
	if at.region != "" {
		options = append(options, config.WithRegion(at.region))
	}
	settings, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("dynamodb: settings of the AWS SDK: %w", err)
	}
	if settings.Region == "" {
		return nil, errors.New("dynamodb: no region: give one in the address (?region=eu-west-1) or in AWS_REGION")
	}
	db := &DB{Work: background.New(), Config: c, Table: &at.table, region: settings.Region}
	db.Client = dynamodb.NewFromConfig(settings, func(o *dynamodb.Options) {
		o.HTTPClient = &courier{db: db, next: o.HTTPClient}
		if at.endpoint != "" {
			o.BaseEndpoint = &at.endpoint
		}
	})
	return db, nil
}

// Requests returns how many requests were sent since the start.
func (db *DB) Requests() int64 { return db.requests.Load() }

// Ready returns an error if db is closed or ctx has ended.
func (db *DB) Ready(ctx context.Context) error {
	if db.Life().Err() != nil {
		return fmt.Errorf("dynamodb: %w", sluice.ErrClosed)
	}
	return ctx.Err()
}
