package dynamodb

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSkewIsWhatTheDateProves(t *testing.T) {
	service := time.Date(2026, time.March, 11, 10, 20, 30, 0, time.UTC)
	date := service.Format(http.TimeFormat)
	for _, test := range []struct {
		asked, answered time.Duration // by this machine's clock, after the Date
		want            time.Duration
	}{
		{0, 10 * time.Millisecond, 0},
		{990 * time.Millisecond, 1200 * time.Millisecond, 0}, // the Date is cut to the second
		{1500 * time.Millisecond, 1600 * time.Millisecond, 500 * time.Millisecond},
		{-300 * time.Millisecond, 10 * time.Millisecond, 0}, // it may have been on its way
		{-5 * time.Second, -4 * time.Second, -4 * time.Second},
		{time.Hour, time.Hour, time.Hour - time.Second},
	} {
		var lines strings.Builder
		log := slog.New(slog.NewTextHandler(&lines, nil))
		db := &DB{}
		for range 3 {
			db.skew.saw(date, service.Add(test.asked), service.Add(test.answered), log)
		}
		if got, known := db.Skew(); got != test.want || !known {
			t.Errorf("asked at %s, answered at %s: %s ahead, want %s", test.asked, test.answered, got, test.want)
		}
		if got := strings.Count(lines.String(), "\n"); (got == 1) != (test.want.Abs() > WarnSkew) || got > 1 {
			t.Errorf("%s ahead: %d lines in the log", test.want, got)
		}
	}
	db := &DB{}
	db.skew.saw("yesterday", service, service, slog.Default())
	if _, known := db.Skew(); known {
		t.Error("a Date that is none says something")
	}
}
