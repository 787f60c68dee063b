package sqlite

import (
	"reflect"
	"testing"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// stepCounter returns a function that runs a statement to its end and returns
// how many steps SQLite's virtual machine took. The driver does not tell, so
// this asks SQLite itself.
func stepCounter(t *testing.T, path string) func(statement) int {
	t.Helper()
	tls := libc.NewTLS()
	t.Cleanup(tls.Close)
	text := func(s string) uintptr {
		p, err := libc.CString(s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { libc.Xfree(tls, p) })
		return p
	}
	must := func(what string, code int32) {
		t.Helper()
		if code != lib.SQLITE_OK {
			t.Fatalf("%s: code %d", what, code)
		}
	}
	const word = 8 // or less
	out := tls.Alloc(word)
	t.Cleanup(func() { tls.Free(word) })
	result := func() uintptr { return libc.AtomicLoadNUintptr(out, 0) }
	must("open", lib.Xsqlite3_open_v2(tls, text(path), out, lib.SQLITE_OPEN_READWRITE, 0))
	db := result()
	t.Cleanup(func() { lib.Xsqlite3_close_v2(tls, db) })
	return func(s statement) int {
		t.Helper()
		must("prepare "+s.name, lib.Xsqlite3_prepare_v2(tls, db, text(s.sql), -1, out, 0))
		stmt := result()
		defer lib.Xsqlite3_finalize(tls, stmt)
		for i, arg := range s.args {
			switch v := reflect.ValueOf(arg); v.Kind() {
			case reflect.String:
				must("bind "+s.name, lib.Xsqlite3_bind_text(tls, stmt, int32(i+1), text(v.String()), int32(v.Len()), 0))
			case reflect.Int, reflect.Int64:
				must("bind "+s.name, lib.Xsqlite3_bind_int64(tls, stmt, int32(i+1), v.Int()))
			default:
				t.Fatalf("%s: argument %d is a %T", s.name, i, arg)
			}
		}
		code := lib.Xsqlite3_step(tls, stmt)
		for code == lib.SQLITE_ROW {
			code = lib.Xsqlite3_step(tls, stmt)
		}
		if code != lib.SQLITE_DONE {
			t.Fatalf("%s: code %d", s.name, code)
		}
		return int(lib.Xsqlite3_stmt_status(tls, stmt, lib.SQLITE_STMTSTATUS_VM_STEP, 0))
	}
}
