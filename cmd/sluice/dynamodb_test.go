package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/dynamodb/dynamodbtest"
)

// dynamodbRun runs a command and returns what it prints.
func dynamodbRun(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if got := run(t.Context(), append([]string{"dynamodb"}, args...), nil, &out, &errs); got != code {
		t.Fatalf("%q: exit %d: %s", args, got, &errs)
	}
	return out.String() + errs.String()
}

func TestDynamoDBTables(t *testing.T) {
	server := dynamodbtest.Start(t)
	at, region := dynamodbtest.URL(server.Addr(), "limits"), dynamodbtest.URL(server.Addr(), "")
	says := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in:\n%s", want, text)
			}
		}
	}
	says(dynamodbRun(t, exitDone, "setup", at, "--dry-run", "--recovery"), `"CreateTable"`, `"UpdateTimeToLive"`, `"UpdateContinuousBackups"`, `"PAY_PER_REQUEST"`, `"GSI3PK"`)
	says(dynamodbRun(t, exitDone, "setup", at, "--dry-run", "--as", "cloudformation"), `"AWS::DynamoDB::Table"`, `"TimeToLiveSpecification"`, `"KEYS_ONLY"`)
	says(dynamodbRun(t, exitDone, "setup", at, "--dry-run", "--as", "terraform", "--read", "5", "--write", "7"), `resource "aws_dynamodb_table"`, "write_capacity = 7", `name = "GSI2"`)
	if got := dynamodbRun(t, exitDone, "list", region); got != "" {
		t.Errorf("a dry run has made %q", got)
	}
	dynamodbRun(t, exitDone, "setup", at)
	says(dynamodbRun(t, exitDone, "list", region), "limits\n")
	says(dynamodbRun(t, exitDone, "status", at), "ACTIVE", "on demand")
	says(dynamodbRun(t, exitDone, "delete", at, "--dry-run"), "would delete table limits")
	says(dynamodbRun(t, exitTrouble, "delete", at), "--yes")
	says(dynamodbRun(t, exitDone, "list", region), "limits\n")
	dynamodbRun(t, exitDone, "delete", at, "--yes")
	if got := dynamodbRun(t, exitDone, "list", region); got != "" {
		t.Errorf("after it was deleted: %q", got)
	}
}

// TestServeOnDynamoDB has two servers share a limit, and leases, in a table.
func TestServeOnDynamoDB(t *testing.T) {
	server := dynamodbtest.Start(t)
	table := server.Table()
	var nodes []*process
	for range 2 {
		nodes = append(nodes, begin(t, "serve", "--store", table, "--catalog", filepath.Join(t.TempDir(), "sluice.db")))
	}
	passed := 0
	for i := range 14 {
		var out strings.Builder
		switch code := run(t.Context(), []string{"take", "alice", "api", "--limit", "calls=10/hour", "--server", nodes[i%2].url()}, nil, &out, &out); code {
		case exitDone:
			passed++
		case exitRefused:
		default:
			t.Fatalf("take %d: exit %d: %s", i, code, &out)
		}
	}
	if passed != 10 {
		t.Errorf("%d of 14 takes passed, want 10", passed)
	}
	if _, err := opened(t, "--store", table, "--catalog", table); err == nil || !strings.Contains(err.Error(), "DynamoDB keeps buckets only") {
		t.Errorf("as catalog: %v", err)
	}
}
