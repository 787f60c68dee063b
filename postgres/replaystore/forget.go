package replaystore

import (
	"context"
	"encoding/hex"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/postgres"
)

// ForgetAll deletes records of a tenant or a namespace.
func (r *Store) ForgetAll(ctx context.Context, whose idempotency.Whose, most int) (n int, err error) {
	first, last := whose.IDs()
	var froms, tos []string
	if whose.Below {
		froms, tos = namesBelow(whose.Tenant)
	}
	_, err = r.one(ctx, []any{&n}, "SELECT sluice.forget_replays_v1($1, $2, $3, $4, $5, $6)",
		first[:], last[:], postgres.Text(whose.Tenant), froms, tos, most)
	return n, err
}

// namesBelow are the ranges in which names lie that begin with a name and a
// slash: as they are, and in hexadecimal.
func namesBelow(name string) (froms, tos []string) {
	// 0 comes after the slash.
	froms, tos = []string{`\` + hex.EncodeToString([]byte(name+"/"))}, []string{`\` + hex.EncodeToString([]byte(name+"0"))}
	if below := name + "/"; postgres.Text(below) == below {
		froms, tos = append(froms, name+"/"), append(tos, name+"0")
	}
	return froms, tos
}
