package sluice_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/sluice-go/sluice"
)

func TestTokensAsText(t *testing.T) {
	for n, want := range map[int64]string{
		0:                            "0",
		1:                            "0.001",
		10:                           "0.01",
		1500:                         "1.5",
		sluice.Token:                 "1",
		-sluice.Token:                "-1",
		-1:                           "-0.001",
		-2050:                        "-2.05",
		sluice.MaxThousandths:        "1000000000000",
		math.MaxInt64:                "9223372036854775.807",
		math.MinInt64:                "-9223372036854775.808",
		12 * sluice.Token:            "12",
		1_000_000*sluice.Token + 100: "1000000.1",
	} {
		if got := sluice.Thousandths(n).String(); got != want {
			t.Errorf("%d is written %q, want %q", n, got, want)
		}
	}
}

func TestWholeTokens(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 999: 0, 1000: 1, 1999: 1, -1: 0, -5000: 0, sluice.MaxThousandths: 1e12} {
		if got := sluice.Thousandths(n).Whole(); got != want {
			t.Errorf("%s has %d whole tokens, want %d", sluice.Thousandths(n), got, want)
		}
	}
}

func TestTokensAsJSON(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1000, "1.5": 1500, "0.001": 1, "-2.05": -2050, "1000000000000": sluice.MaxThousandths,
	} {
		var n sluice.Amount
		if err := json.Unmarshal([]byte(text), &n); err != nil || n != sluice.Thousandths(want) {
			t.Errorf("%s: %s, %v", text, n, err)
		}
		if b, err := json.Marshal(n); err != nil || string(b) != text {
			t.Errorf("%s is written %s, %v", n, b, err)
		}
	}
	for text, want := range map[string]string{
		"0.0001":         `"0.0001" is not an amount: it has more than three decimals`,
		"1000000000001":  `"1000000000001" is not an amount: it is above 1000000000000`,
		"-1000000000001": `"-1000000000001" is not an amount: it is above 1000000000000`,
		"1e3":            `"1e3" is not an amount: want a number such as 100, 1.5 or 10k`,
		`"5"`:            `"\"5\"" is not an amount: want a number such as 100, 1.5 or 10k`,
		"true":           `"true" is not an amount: want a number such as 100, 1.5 or 10k`,
	} {
		n := sluice.Thousandths(7)
		if err := json.Unmarshal([]byte(text), &n); err == nil || err.Error() != want || n != sluice.Thousandths(7) {
			t.Errorf("%s: %s, %v", text, n, err)
		}
	}
}

// TestNoTokensInJSON: null leaves a value alone, as it does everywhere in JSON.
func TestNoTokensInJSON(t *testing.T) {
	v := struct{ Cost sluice.Amount }{Cost: sluice.Thousandths(7)}
	if err := json.Unmarshal([]byte(`{"Cost":null}`), &v); err != nil || v.Cost.Thousandths() != 7 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestABareNumberIsNoAmount: Cost: 3 once meant 0.003 tokens. It compiles for
// every integer type, and for no struct.
func TestABareNumberIsNoAmount(t *testing.T) {
	if kind := reflect.TypeFor[sluice.Amount]().Kind(); kind != reflect.Struct {
		t.Errorf("an amount is of kind %s", kind)
	}
	if got := sluice.Tokens(3); got != sluice.Thousandths(3000) || got.Whole() != 3 || got.String() != "3" {
		t.Errorf("three tokens are %s", got)
	}
}

func TestAmountsOutOfRangeStayOutOfRange(t *testing.T) {
	for n, want := range map[int64]int64{
		1e12: sluice.MaxThousandths, 1e12 + 1: sluice.MaxThousandths + 1, math.MaxInt64: sluice.MaxThousandths + 1,
		-1e12: -sluice.MaxThousandths, -1e12 - 1: -sluice.MaxThousandths - 1, math.MinInt64: -sluice.MaxThousandths - 1,
	} {
		if got := sluice.Tokens(n).Thousandths(); got != want {
			t.Errorf("%d tokens are %d thousandths, want %d", n, got, want)
		}
	}
}

func TestAmountsAddAndCompare(t *testing.T) {
	half, two := sluice.Thousandths(500), sluice.Tokens(2)
	if got := two.Add(half).Sub(sluice.Tokens(3)).String(); got != "-0.5" {
		t.Errorf("2 + 0.5 - 3 is %s", got)
	}
	if half.Compare(two) != -1 || two.Compare(half) != 1 || two.Compare(two) != 0 {
		t.Error("0.5 is not below 2")
	}
	if half.IsZero() || !half.Sub(half).IsZero() {
		t.Error("zero is not told from 0.5")
	}
}
