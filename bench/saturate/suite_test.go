package saturate

import (
	"fmt"
	"io"
	"os"
	"testing"
)

// The test binary is also the worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == WorkerCommand {
		if err := Worker(os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProcessesStayWithinTheBound(t *testing.T) {
	s, err := Run(Quick(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range s.Claims {
		if within := i%2 == 0; within && !c.Met {
			t.Errorf("%s: %s", c.What, c.Got)
		}
	}
	if len(s.Claims) != 2*len(stores) || len(s.Tables[0].Rows) != len(stores) {
		t.Errorf("not every store was measured: %+v", s)
	}
}
