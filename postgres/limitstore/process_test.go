package limitstore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// Tests that kill a process start this test binary again with helperVariable,
// which says what it is to do, and on which database.
const helperVariable = "SLUICE_POSTGRES_TEST_HELPER"

func helpIfAsked() {
	what, address, ok := strings.Cut(os.Getenv(helperVariable), " ")
	if !ok {
		return
	}
	switch what {
	case "lock":
		lockAndHang(address)
	case "take":
		takeForEver(address)
	}
	os.Exit(0)
}

// lockAndHang locks a bucket in a transaction of its own and never ends it.
func lockAndHang(address string) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, address)
	if err == nil {
		_, err = conn.Exec(ctx, "BEGIN; SELECT * FROM sluice.bucket FOR UPDATE")
	}
	fmt.Println("locked", err)
	select {}
}

// takeForEver takes and reports each token once it has it.
func takeForEver(address string) {
	s, err := limitstore.Open(context.Background(), postgres.Config{Address: address})
	if err != nil {
		fmt.Println(err)
		return
	}
	l := sluice.New(s)
	for {
		d, err := l.Take(context.Background(), demand("a", slow, 1))
		if err != nil || !d.Allowed {
			fmt.Println(d.Allowed, err)
			return
		}
		fmt.Println("took")
	}
}

// start starts a helper and answers what it says, line by line.
func start(t *testing.T, what, address string) (*os.Process, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+what+" "+address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may be dead already
		cmd.Wait()         //nolint:errcheck // killed
	})
	return cmd.Process, bufio.NewScanner(out)
}

// TestKilledHolderBlocksNobody kills a process that has a bucket locked.
func TestKilledHolderBlocksNobody(t *testing.T) {
	address := postgrestest.Database(t)
	s := open(t, postgres.Config{Address: address, Timeout: 20 * time.Second})
	take(t, s, demand("a", "10/hour", 1), true)

	holder, says := start(t, "lock", address)
	if !says.Scan() || says.Text() != "locked <nil>" {
		t.Fatalf("the helper says %q", says.Text())
	}
	waiting := make(chan error)
	go func() {
		_, err := sluice.New(s).Take(context.Background(), demand("a", "10/hour", 1))
		waiting <- err
	}()
	postgrestest.Eventually(t, "a take waits for the lock", func() bool {
		return postgrestest.Number(t, address, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%take_plain_v2%'") == 1
	})
	killed := time.Now()
	if err := holder.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	t.Logf("the waiting take passed %s after the holder was killed", time.Since(killed).Round(time.Millisecond))
	if got := consumed(t, s); got != 2*sluice.Token {
		t.Errorf("%s consumed, want 2", sluice.Thousandths(got))
	}
}

// TestStuckHolderCostsAnErrorNotAHang waits for a lock that is not released.
func TestStuckHolderCostsAnErrorNotAHang(t *testing.T) {
	address := postgrestest.Database(t)
	s := open(t, postgres.Config{Address: address, Timeout: 2 * time.Second})
	take(t, s, demand("a", "10/hour", 1), true)
	_, says := start(t, "lock", address)
	if !says.Scan() {
		t.Fatal("the helper says nothing")
	}
	_, err := sluice.New(s).Take(context.Background(), demand("a", "10/hour", 1))
	postgrestest.WantError(t, err, sluice.ErrUnavailable)
	take(t, s, demand("b", "10/hour", 1), true) // others are not affected
}

// TestKilledTakersSpendOnce kills processes in the middle of taking: whatever
// they have reported is spent, and at most one take more for each.
func TestKilledTakersSpendOnce(t *testing.T) {
	address := postgrestest.Database(t)
	s := open(t, postgres.Config{Address: address})
	const rounds = 5
	reported := 0
	for range rounds {
		taker, says := start(t, "take", address)
		for n := 0; says.Scan(); reported++ {
			if says.Text() != "took" {
				t.Fatalf("the helper says %q", says.Text())
			}
			if n++; n == 20 {
				if err := taker.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	postgrestest.Eventually(t, "no connection is left of them", func() bool {
		return postgrestest.Number(t, address, "SELECT count(DISTINCT client_port) FROM pg_stat_activity WHERE application_name = 'sluice' AND state = 'active'") == 0
	})
	take(t, s, demand("a", slow, 1), true)
	got := int(consumed(t, s)/sluice.Token) - 1
	if got < reported || got > reported+rounds {
		t.Errorf("%d tokens are spent, %d were reported by %d processes", got, reported, rounds)
	}
}
