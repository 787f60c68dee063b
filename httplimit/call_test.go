package httplimit

import (
	"reflect"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// TestACallForgetsTheLastRequest: whatever was decided about one caller, the
// next one who gets the same Call sees nothing of it.
func TestACallForgetsTheLastRequest(t *testing.T) {
	var c Call
	for _, v := range []any{&c.Decision, &c.take} {
		fill(t, reflect.ValueOf(v).Elem())
	}
	// What the gate never asks for cannot be left over.
	c.take.Peek, c.take.UpTo, c.take.Priority, c.take.Ticket, c.take.Resolve = false, false, 0, sluice.Ticket{}, nil
	c.reset()
	if want := (sluice.Decision{Results: []sluice.Result{}}); !reflect.DeepEqual(c.Decision, want) {
		t.Errorf("decision: %+v", c.Decision)
	}
	if want := (sluice.Take{Demands: []sluice.Demand{}}); !reflect.DeepEqual(c.take, want) {
		t.Errorf("take: %+v", c.take)
	}
}

// fill gives every field of a struct a value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("left over")
		case reflect.Func:
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Int, reflect.Int8, reflect.Int64:
			f.SetInt(1)
		case reflect.Uint8:
			f.SetUint(1)
		case reflect.Uint64:
			f.SetUint(1)
		case reflect.Struct:
			switch f.Type() {
			case reflect.TypeFor[time.Time]():
				f.Set(reflect.ValueOf(time.Unix(1, 0)))
			case reflect.TypeFor[sluice.Amount]():
				f.Set(reflect.ValueOf(sluice.Tokens(1)))
			default:
				fill(t, f)
			}
		default:
			t.Fatalf("%s: a %s, which this test cannot fill", v.Type().Field(i).Name, f.Kind())
		}
	}
}
