package replays

import (
	"io"
	"testing"

	"github.com/sluice-go/sluice/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

func TestQuickRunMeasuresEverything(t *testing.T) {
	s, err := Run(Quick(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 2 || len(s.Tables[0].Rows) != 4 || len(s.Tables[1].Rows) != 4 {
		t.Errorf("got %+v", s)
	}
}
