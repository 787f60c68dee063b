package storetest

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

func openModel(_ testing.TB, now func() time.Time) sluice.Store { return NewModel(now) }

func TestModel(t *testing.T) { Run(t, openModel) }
