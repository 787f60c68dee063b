package dynamodb_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/dynamodb/dynamodbtest"
)

func TestATableIsSetUpListedAndDeleted(t *testing.T) {
	server := dynamodbtest.Start(t)
	ctx := context.Background()
	at := func(table string) dynamodb.Config {
		return dynamodb.Config{Address: dynamodbtest.URL(server.Addr(), table)}
	}
	if _, err := dynamodb.Open(ctx, at("limits")); err == nil || !strings.Contains(err.Error(), "sluice dynamodb setup") {
		t.Errorf("without a table: %v", err)
	}
	for range 2 { // the second time changes nothing
		if err := dynamodb.Setup(ctx, at("limits"), dynamodb.Definition{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := dynamodb.Setup(ctx, at("provisioned"), dynamodb.Definition{Capacity: dynamodb.Capacity{Read: 5, Write: 7}}); err != nil {
		t.Fatal(err)
	}
	if names, err := dynamodb.Tables(ctx, at("")); err != nil || !slices.Equal(names, []string{"limits", "provisioned"}) {
		t.Errorf("tables: %q, %v", names, err)
	}
	status, err := dynamodb.TableStatus(ctx, at("provisioned"))
	if err != nil || status.State != "ACTIVE" || status.Version != dynamodb.Version || !status.Deletes || len(status.Indexes) != 3 ||
		status.Capacity != (dynamodb.Capacity{Read: 5, Write: 7}) {
		t.Errorf("status: %+v, %v", status, err)
	}
	db, err := dynamodb.Open(ctx, at("limits"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := dynamodb.DeleteTable(ctx, at("limits")); err != nil {
		t.Error(err)
	}
	if names, err := dynamodb.Tables(ctx, at("")); err != nil || !slices.Equal(names, []string{"provisioned"}) {
		t.Errorf("tables after one is deleted: %q, %v", names, err)
	}
}

func TestAddresses(t *testing.T) {
	dynamodbtest.Credentials()
	t.Setenv("AWS_REGION", "")
	for address, want := range map[string]string{
		"dynamodb://limits":                                         "no region",
		"redis://limits":                                            "must be like dynamodb://",
		"dynamodb://":                                               "no region",
		"dynamodb://?region=eu-west-1":                              "must name a table",
		"dynamodb://key:secret@limits":                              "credentials come from the environment",
		"dynamodb://limits/x":                                       "must be like",
		"dynamodb://limits?zone=a":                                  "must be region or endpoint",
		"dynamodb://limits?region=EU":                               "must be like eu-west-1",
		"dynamodb://li?region=eu-west-1":                            "3 to 255 letters",
		"dynamodb://limits?region=eu-west-1&endpoint=localhost":     "must be like http://",
		"dynamodb://limits?region=eu-west-1&endpoint=ftp://x":       "must be like http://",
		"dynamodb://limits?region=eu-west-1&endpoint=http://a:b@x/": "must be like http://",
	} {
		if _, err := dynamodb.Open(t.Context(), dynamodb.Config{Address: address}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

func TestPartsOfKeysComeBack(t *testing.T) {
	for _, part := range []string{"", "a", "a#b/c%d", "\x00\xff", "é", "100%"} {
		text := dynamodb.Escape(part)
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' || r == '/' }) {
			t.Errorf("%q is written %q", part, text)
		}
		if back, ok := dynamodb.Unescape(text); !ok || back != part {
			t.Errorf("%q comes back as %q", part, back)
		}
	}
}
