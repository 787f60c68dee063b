package dynamodb

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Status is what is known of a table.
type Status struct {
	Table    string            `json:"table"`
	Region   string            `json:"region"`
	State    string            `json:"state"`   // ACTIVE if it can be used
	Version  int64             `json:"version"` // of what it has; 0 if it was not set up
	Items    int64             `json:"items"`   // about, up to six hours old
	Bytes    int64             `json:"bytes"`   // the same
	Capacity Capacity          `json:"capacity"`
	Deletes  bool              `json:"deletes"`  // what is over is deleted by DynamoDB
	Recovery bool              `json:"recovery"` // it can be restored as it was
	Indexes  map[string]string `json:"indexes"`
}

// TableStatus returns the status of the table of config.Address.
func TableStatus(ctx context.Context, config Config) (s Status, err error) {
	db, err := connectTable(ctx, config)
	if err != nil {
		return s, err
	}
	defer db.Close()
	table, err := db.describe(ctx)
	if err != nil {
		return s, err
	}
	s = Status{Table: *db.Table, Region: db.region, State: string(table.TableStatus), Indexes: map[string]string{}}
	if table.ItemCount != nil {
		s.Items = *table.ItemCount
	}
	if table.TableSizeBytes != nil {
		s.Bytes = *table.TableSizeBytes
	}
	if p := table.ProvisionedThroughput; p != nil && p.ReadCapacityUnits != nil && p.WriteCapacityUnits != nil {
		s.Capacity = Capacity{*p.ReadCapacityUnits, *p.WriteCapacityUnits}
	}
	for _, i := range table.GlobalSecondaryIndexes {
		s.Indexes[*i.IndexName] = string(i.IndexStatus)
	}
	if s.Deletes, err = db.deletes(ctx); err != nil {
		return s, err
	}
	s.Recovery = db.recovers(ctx)
	s.Version, err = db.version(ctx)
	return s, err
}

// recovers reports whether there are backups. Whoever may not know is told there
// are none.
func (db *DB) recovers(ctx context.Context) (on bool) {
	err := db.Read(ctx, func(ctx context.Context) error {
		out, err := db.Client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: db.Table})
		if err == nil && out.ContinuousBackupsDescription != nil && out.ContinuousBackupsDescription.PointInTimeRecoveryDescription != nil {
			on = out.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled
		}
		return err
	})
	return err == nil && on
}

// DeleteTable deletes the table of config.Address with all that it has. One that was
// not set up by this program is left alone.
func DeleteTable(ctx context.Context, config Config) error {
	db, err := connectTable(ctx, config)
	if err != nil {
		return err
	}
	defer db.Close()
	switch v, err := db.version(ctx); {
	case err != nil:
		return err
	case v == 0:
		return fmt.Errorf("dynamodb: table %q was not set up by sluice: delete it by other means", *db.Table)
	}
	return db.Write(ctx, func(ctx context.Context) error {
		_, err := db.Client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: db.Table})
		return err
	})
}

// Tables returns the names of the tables of a region that were set up by this
// program. The address names no table.
func Tables(ctx context.Context, config Config) (names []string, err error) {
	db, err := connect(ctx, config)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	request := &dynamodb.ListTablesInput{}
	for {
		var page *dynamodb.ListTablesOutput
		err := db.Read(ctx, func(ctx context.Context) (err error) {
			page, err = db.Client.ListTables(ctx, request)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, name := range page.TableNames {
			one := DB{Config: db.Config, Client: db.Client, Table: &name, region: db.region}
			switch v, err := one.version(ctx); {
			case err == nil && v > 0:
				names = append(names, name)
			case ctx.Err() != nil:
				return nil, errors.Join(err, ctx.Err())
			}
		}
		if request.ExclusiveStartTableName = page.LastEvaluatedTableName; page.LastEvaluatedTableName == nil {
			return names, nil
		}
	}
}
