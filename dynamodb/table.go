package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
)

// Version is that of what the table has, which this program can work with. One that
// is older is migrated by [Setup].
const Version = 1

// versionKey is the item that has it.
var versionKey = Key{"SYSTEM#", "#VERSION"}

const (
	versionAttribute = "schema_version"
	ownerTag         = "sluice"
)

// Capacity is what a table can do in a second. The zero Capacity is on demand: it
// does what it is asked, and each request is paid for.
type Capacity struct {
	Read  int64 `json:"read"`
	Write int64 `json:"write"`
}

// Definition is how a table is to be.
type Definition struct {
	Capacity Capacity

	// Recovery keeps backups from which the table can be restored as it was at
	// any second of the last 35 days.
	Recovery bool
}

// Create returns the request that creates a table. Its indexes have keys only, so
// that a write that changes no key costs nothing in them.
func (d *Definition) Create(table string) *dynamodb.CreateTableInput {
	create := &dynamodb.CreateTableInput{
		TableName:   &table,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   keySchema(PK, SK),
		Tags:        []types.Tag{{Key: aws.String(ownerTag), Value: aws.String(strconv.Itoa(Version))}},
	}
	var throughput *types.ProvisionedThroughput
	if d.Capacity != (Capacity{}) {
		create.BillingMode = types.BillingModeProvisioned
		throughput = &types.ProvisionedThroughput{ReadCapacityUnits: &d.Capacity.Read, WriteCapacityUnits: &d.Capacity.Write}
	}
	create.ProvisionedThroughput = throughput
	for _, name := range []string{PK, SK, GSI1PK, GSI1SK, GSI2PK, GSI2SK, GSI3PK, GSI3SK} {
		create.AttributeDefinitions = append(create.AttributeDefinitions,
			types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS})
	}
	for _, index := range [][3]string{{GSI1, GSI1PK, GSI1SK}, {GSI2, GSI2PK, GSI2SK}, {GSI3, GSI3PK, GSI3SK}} {
		create.GlobalSecondaryIndexes = append(create.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(index[0]), KeySchema: keySchema(index[1], index[2]),
			Projection:            &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
			ProvisionedThroughput: throughput,
		})
	}
	return create
}

func keySchema(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: &hash, KeyType: types.KeyTypeHash},
		{AttributeName: &sort, KeyType: types.KeyTypeRange},
	}
}

// TimeToLive returns the request that has DynamoDB delete what is over.
func TimeToLive(table string) *dynamodb.UpdateTimeToLiveInput {
	return &dynamodb.UpdateTimeToLiveInput{TableName: &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(TTL), Enabled: yes}}
}

// Recovery returns the request that keeps backups of a table.
func Recovery(table string) *dynamodb.UpdateContinuousBackupsInput {
	return &dynamodb.UpdateContinuousBackupsInput{TableName: &table,
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: yes}}
}

// Setup creates the table of config.Address, if it is not there, and whatever of it
// is missing. Doing it again changes nothing.
func Setup(ctx context.Context, config Config, d Definition) error {
	db, err := connectTable(ctx, config)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.create(ctx, &d); err != nil {
		return err
	}
	if err := db.keepTime(ctx); err != nil {
		return err
	}
	if d.Recovery {
		if err := db.Write(ctx, func(ctx context.Context) error {
			_, err := db.Client.UpdateContinuousBackups(ctx, Recovery(*db.Table))
			return err
		}); err != nil {
			return fmt.Errorf("point-in-time recovery: %w", err)
		}
	}
	return db.writeVersion(ctx)
}

// connectTable connects to a table that need not be there yet.
func connectTable(ctx context.Context, config Config) (*DB, error) {
	db, err := connect(ctx, config)
	if err == nil && *db.Table == "" {
		err = errNoTable
	}
	return db, err
}

// create creates the table and waits until it can be used.
func (db *DB) create(ctx context.Context, d *Definition) error {
	if _, err := db.describe(ctx); isError[*types.ResourceNotFoundException](err) {
		err := db.Write(ctx, func(ctx context.Context) error {
			_, err := db.Client.CreateTable(ctx, d.Create(*db.Table))
			if isError[*types.ResourceInUseException](err) {
				return nil // somebody else is faster
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for {
		table, err := db.describe(ctx)
		if err != nil {
			return err
		}
		if table.TableStatus == types.TableStatusActive {
			return db.checkKeys(table)
		}
		if !backoff.Sleep(ctx, 500*time.Millisecond) {
			return fmt.Errorf("dynamodb: table %q is not ready yet: %w", *db.Table, ctx.Err())
		}
	}
}

func isError[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// checkKeys makes sure that a table that was there is one of ours.
func (db *DB) checkKeys(table *types.TableDescription) error {
	keys := map[string]bool{}
	for _, k := range table.KeySchema {
		keys[*k.AttributeName] = true
	}
	indexes := map[string]bool{}
	for _, i := range table.GlobalSecondaryIndexes {
		indexes[*i.IndexName] = true
	}
	if !keys[PK] || !keys[SK] || !indexes[GSI1] || !indexes[GSI2] || !indexes[GSI3] {
		return fmt.Errorf("dynamodb: table %q is there and is another one: it must have the keys PK and SK and the indexes GSI1, GSI2 and GSI3", *db.Table)
	}
	return nil
}

func (db *DB) describe(ctx context.Context) (table *types.TableDescription, err error) {
	err = db.Read(ctx, func(ctx context.Context) error {
		out, err := db.Client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: db.Table})
		if err == nil {
			table = out.Table
		}
		return err
	})
	return table, err
}

// keepTime switches on the deletion of what is over, unless it is.
func (db *DB) keepTime(ctx context.Context) error {
	on, err := db.deletes(ctx)
	if err != nil || on {
		return err
	}
	return db.Write(ctx, func(ctx context.Context) error {
		_, err := db.Client.UpdateTimeToLive(ctx, TimeToLive(*db.Table))
		return err
	})
}

// deletes reports whether DynamoDB deletes what is over.
func (db *DB) deletes(ctx context.Context) (on bool, err error) {
	err = db.Read(ctx, func(ctx context.Context) error {
		out, err := db.Client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: db.Table})
		if err == nil && out.TimeToLiveDescription != nil {
			s := out.TimeToLiveDescription.TimeToLiveStatus
			on = s == types.TimeToLiveStatusEnabled || s == types.TimeToLiveStatusEnabling
		}
		return err
	})
	return on, err
}

func (db *DB) writeVersion(ctx context.Context) error {
	item := versionKey.Item()
	item[versionAttribute] = N(Version)
	err := db.Write(ctx, func(ctx context.Context) error {
		_, err := db.Client.PutItem(ctx, &dynamodb.PutItemInput{TableName: db.Table, Item: item,
			ConditionExpression:       aws.String("attribute_not_exists(" + versionAttribute + ") OR " + versionAttribute + " <= :v"),
			ExpressionAttributeValues: Item{":v": N(Version)}})
		return err
	})
	if errors.Is(err, ErrChanged) {
		return db.checkVersion(ctx)
	}
	return err
}

// version returns that of what the table has, 0 for none.
func (db *DB) version(ctx context.Context) (version int64, err error) {
	err = db.Read(ctx, func(ctx context.Context) error {
		out, err := db.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: db.Table, Key: versionKey.Item(), ConsistentRead: yes})
		if err == nil {
			version, _ = Number(out.Item[versionAttribute])
		}
		return err
	})
	if isError[*types.ResourceNotFoundException](err) {
		return 0, fmt.Errorf("dynamodb: %w: there is no table %q in %s: create it with sluice dynamodb setup", sluice.ErrUnavailable, *db.Table, db.region)
	}
	return version, err
}

func (db *DB) checkVersion(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*db.Config.Timeout)
	defer cancel()
	switch v, err := db.version(ctx); {
	case err != nil:
		return err
	case v == 0:
		return fmt.Errorf("dynamodb: table %q has not been set up: run sluice dynamodb setup", *db.Table)
	case v > Version:
		return fmt.Errorf("dynamodb: table %q has version %d, and this program knows %d: run a newer one", *db.Table, v, Version)
	}
	return nil
}

// N returns a number as an attribute.
func N(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// Number returns the number of an attribute, and whether it is one.
func Number(a types.AttributeValue) (int64, bool) {
	n, ok := a.(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	return v, err == nil
}
