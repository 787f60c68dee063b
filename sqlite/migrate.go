package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
)

// The migrations are the SQL files of all jobs, each once, in the order of
// their names. A released file never changes.
//
//go:embed */sql/*.sql
var migrations embed.FS

func migrationFiles() ([]string, error) {
	files, err := fs.Glob(migrations, "*/sql/*.sql")
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(path.Base(a), path.Base(b)) })
	return files, err
}

// Version returns the version of the file at path, 0 if there is none, and the
// one that this program needs.
func Version(ctx context.Context, path string) (have, newest int, err error) {
	files, err := migrationFiles()
	if err != nil {
		return 0, 0, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, len(files), nil
	}
	db, err := open(path, "deferred", 1)
	if err != nil {
		return 0, 0, err
	}
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have)
	return have, len(files), errors.Join(err, db.Close())
}

// migrate brings the file to this program's version, if it is older. The
// version is the number of migrations, in SQLite's own user_version.
func (db *DB) migrate(ctx context.Context) error {
	files, err := migrationFiles()
	if err != nil {
		return err
	}
	have := 0
	err = db.Write(ctx, func(tx *sql.Tx) error { // whoever else is starting waits for the lock
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
			return err
		}
		if have > len(files) {
			return fmt.Errorf("the file has version %d and this Sluice knows %d: use a newer Sluice, or another file", have, len(files))
		}
		for _, file := range files[have:] {
			script, err := migrations.ReadFile(file)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(script)); err != nil {
				return fmt.Errorf("migration %s: %w", file, err)
			}
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(files)))
		return err
	})
	if err == nil && 0 < have && have < len(files) {
		// Give back room, and what earlier versions have deleted and not
		// overwritten.
		_, err = db.writing.ExecContext(ctx, "VACUUM")
	}
	return err
}
