package sluice_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/sluice-go/sluice"
)

func TestTokensAsText(t *testing.T) {
	for n, want := range map[sluice.Tokens]string{
		0:                            "0",
		1:                            "0.001",
		10:                           "0.01",
		1500:                         "1.5",
		sluice.Token:                 "1",
		-sluice.Token:                "-1",
		-1:                           "-0.001",
		-2050:                        "-2.05",
		sluice.MaxTokens:             "1000000000000",
		math.MaxInt64:                "9223372036854775.807",
		math.MinInt64:                "-9223372036854775.808",
		12 * sluice.Token:            "12",
		1_000_000*sluice.Token + 100: "1000000.1",
	} {
		if got := n.String(); got != want {
			t.Errorf("%d is written %q, want %q", int64(n), got, want)
		}
	}
}

func TestWholeTokens(t *testing.T) {
	for n, want := range map[sluice.Tokens]int64{0: 0, 999: 0, 1000: 1, 1999: 1, -1: 0, -5000: 0, sluice.MaxTokens: 1e12} {
		if got := n.Whole(); got != want {
			t.Errorf("%s has %d whole tokens, want %d", n, got, want)
		}
	}
}

func TestTokensAsJSON(t *testing.T) {
	for text, want := range map[string]sluice.Tokens{
		"0": 0, "1": 1000, "1.5": 1500, "0.001": 1, "-2.05": -2050, "1000000000000": sluice.MaxTokens,
	} {
		var n sluice.Tokens
		if err := json.Unmarshal([]byte(text), &n); err != nil || n != want {
			t.Errorf("%s: %d, %v", text, int64(n), err)
		}
		if b, err := json.Marshal(n); err != nil || string(b) != text {
			t.Errorf("%d is written %s, %v", int64(n), b, err)
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
		n := sluice.Tokens(7)
		if err := json.Unmarshal([]byte(text), &n); err == nil || err.Error() != want || n != 7 {
			t.Errorf("%s: %d, %v", text, int64(n), err)
		}
	}
}

// TestNoTokensInJSON: null leaves a value alone, as it does everywhere in JSON.
func TestNoTokensInJSON(t *testing.T) {
	v := struct{ Cost sluice.Tokens }{Cost: 7}
	if err := json.Unmarshal([]byte(`{"Cost":null}`), &v); err != nil || v.Cost != 7 {
		t.Errorf("%+v, %v", v, err)
	}
}
