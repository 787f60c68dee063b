package exactjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/exactjson"
)

type inner struct {
	Rule string `json:"rule"`
}

type body struct {
	inner
	Entity string            `json:"entity"`
	Raw    json.RawMessage   `json:"raw"`
	Many   []inner           `json:"many"`
	Named  map[string]*inner `json:"named"`
	Cost   sluice.Amount     `json:"cost"`
	Plain  bool
}

func many(last string) string {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, `"n%d":{},`, i)
	}
	return `{"named":{` + b.String() + last + `:{}}}`
}

func TestCheck(t *testing.T) {
	for text, field := range map[string]string{
		`{}`: "",
		` { "entity" : "a\"b" , "rule":"x", "cost": 1.5, "Plain":true, "raw": [1, {"a":{"b":null}}, "}"] } `: "",
		`{"many":[{"rule":"a"},{"rule":"b"}],"named":{"Rule":{"rule":"x"},"rule":null}}`:                     "",
		`{"raw":{"A":1,"a":2}}`:                    "", // nothing says what is in it
		`{"entity":"a","entity":"b"}`:              "entity",
		`{"entity":"a","ENTITY":"b"}`:              "ENTITY",
		`{"Entity":"a"}`:                           "Entity",
		`{"entit\u0079":"a","entity":"b"}`:         "entity",
		`{"entity":"a","raw":{"x":{"b":1,"b":2}}}`: "b",
		`{"many":[{"rule":"a"},{"Rule":"b"}]}`:     "Rule",
		`{"many":[{"rule":"a","rule":"b"}]}`:       "rule",
		`{"named":{"x":{"RULE":"b"}}}`:             "RULE",
		`{"named":{"x":{},"x":{}}}`:                "x",
		`{"named":{"é":{},"\u00e9":{}}}`:           "é",
		`{"plain":true}`:                           "plain",
		`{"ru\u017fe":1,"rule":"","RULE":"x"}`:     "RULE",
		many(`"n100"`):                             "",
		many(`"n7"`):                               "n7",
		`{"co\u017ft":1}`:                          "co\u017ft", // a long s folds to s
	} {
		var wrong *sluice.FieldError
		err := exactjson.Check([]byte(text), reflect.TypeFor[body]())
		if errors.As(err, &wrong); err == nil && field != "" || err != nil && (wrong == nil || wrong.Field != field) {
			t.Errorf("%s: %v, want %q", text, err, field)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(`{"entity":"a","many":[{"rule":"b"}],"named":{"x":{"rule":"\u0041"}}}`)
	f.Add(` "`)
	f.Fuzz(func(_ *testing.T, text string) {
		exactjson.Check([]byte(text), reflect.TypeFor[body]()) //nolint:errcheck // it must only end
	})
}
