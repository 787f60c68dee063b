package dynamodb

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Plan returns what [Setup] would do, for those who have to review it: as the "calls"
// of the service's API, or as the text of a table for "cloudformation" or "terraform".
// It sends nothing.
func Plan(config Config, d Definition, as string) (string, error) {
	at, err := parseAddress(config.Address)
	if err != nil {
		return "", fmt.Errorf("dynamodb: address: %w", err)
	}
	if at.table == "" {
		return "", errNoTable
	}
	create, life, recovery := d.Create(at.table), TimeToLive(at.table), Recovery(at.table)
	switch as {
	case "terraform":
		return d.terraform(at.table), nil
	case "cloudformation":
		properties, err := plain(create)
		if err != nil {
			return "", err
		}
		table := properties.(map[string]any)
		if table["TimeToLiveSpecification"], err = plain(life.TimeToLiveSpecification); err != nil {
			return "", err
		}
		if d.Recovery {
			table["PointInTimeRecoverySpecification"] = map[string]any{"PointInTimeRecoveryEnabled": true}
		}
		return indented(map[string]any{
			"AWSTemplateFormatVersion": "2010-09-09",
			"Resources":                map[string]any{"Table": map[string]any{"Type": "AWS::DynamoDB::Table", "DeletionPolicy": "Retain", "Properties": table}},
		})
	}
	calls := []any{map[string]any{"CreateTable": create}, map[string]any{"UpdateTimeToLive": life}}
	if d.Recovery {
		calls = append(calls, map[string]any{"UpdateContinuousBackups": recovery})
	}
	version := map[string]any{PK: versionKey.PK, SK: versionKey.SK, versionAttribute: Version}
	calls = append(calls, map[string]any{"PutItem": map[string]any{"TableName": at.table, "Item": version}})
	all, err := plain(calls)
	if err != nil {
		return "", err
	}
	return indented(all)
}

var errNoTable = errors.New("dynamodb: address: must name a table, like dynamodb://table?region=eu-west-1")

func indented(v any) (string, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return string(b) + "\n", err
}

// plain returns a request of the SDK as JSON has it, without what is not set.
func plain(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var all any
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	return prune(all), nil
}

func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if value == nil || value == "" {
				delete(v, name)
			} else {
				v[name] = prune(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return v
}

func (d *Definition) terraform(table string) string {
	var b strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	capacity := func(indent string) {
		if d.Capacity != (Capacity{}) {
			write("%sread_capacity  = %d\n%swrite_capacity = %d", indent, d.Capacity.Read, indent, d.Capacity.Write)
		}
	}
	write("resource \"aws_dynamodb_table\" \"sluice\" {\n  name = %q", table)
	if d.Capacity == (Capacity{}) {
		write("  billing_mode = \"PAY_PER_REQUEST\"")
	} else {
		write("  billing_mode = \"PROVISIONED\"")
	}
	capacity("  ")
	write("  hash_key = %q\n  range_key = %q", PK, SK)
	create := d.Create(table)
	for _, a := range create.AttributeDefinitions {
		write("  attribute {\n    name = %q\n    type = %q\n  }", *a.AttributeName, a.AttributeType)
	}
	for _, i := range create.GlobalSecondaryIndexes {
		write("  global_secondary_index {\n    name = %q\n    hash_key = %q\n    range_key = %q\n    projection_type = %q",
			*i.IndexName, *i.KeySchema[0].AttributeName, *i.KeySchema[1].AttributeName, i.Projection.ProjectionType)
		capacity("    ")
		write("  }")
	}
	write("  ttl {\n    attribute_name = %q\n    enabled = true\n  }", TTL)
	write("  point_in_time_recovery {\n    enabled = %t\n  }", d.Recovery)
	for _, t := range create.Tags {
		write("  tags = {\n    %s = %q\n  }", *t.Key, *t.Value)
	}
	write("}")
	return b.String()
}
