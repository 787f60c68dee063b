package limitstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-go/sluice"
)

// ErrVersion is the error of a call that found something written by another
// version of Sluice, which this one cannot read. Nothing has happened. It is a
// [sluice.ErrRecord].
var ErrVersion = fmt.Errorf("%w: a bucket was written by another version of Sluice", sluice.ErrRecord)

// recordError is the error of a call that met something which cannot be read.
// Nothing has happened.
type recordError struct {
	key      string // or "" if it is not a bucket's
	argument int    // of the call, that the key is of
	version  byte
}

// newRecordError reads what the script's which wrote.
func newRecordError(number int64, r *request) *recordError {
	e := &recordError{argument: int(number>>8) - 1, version: byte(number)}
	if e.argument >= 0 && e.argument < len(r.numbers) && !r.joined {
		e.key = r.keys[r.numbers[e.argument]-1]
	}
	return e
}

func (e *recordError) Error() string {
	text := "redis: " + e.Unwrap().Error()
	if e.key != "" {
		text += ": " + e.key
	}
	switch {
	case e.Unwrap() == ErrVersion:
		return fmt.Sprintf("%s: version %d", text, e.version)
	case e.version == 0:
		return text + ": it is empty or no string"
	}
	return text + ": it is cut off"
}

func (e *recordError) Unwrap() error {
	if e.version != 0 && e.version != version && (e.version != waiting || e.argument < 0) { // nobody waits for an id
		return ErrVersion
	}
	return sluice.ErrRecord
}

// spared are things that were left out because their records cannot be read.
type spared struct {
	which []int
	err   error
}

// others does something to all things in which but those whose records cannot be
// read. Each has so many arguments of the call.
func (sp *spared) others(which []int, arguments int, do func(which []int) error) error {
	which = slices.Clone(which)
	for len(which) > 0 {
		var bad *recordError
		err := do(which)
		if !errors.As(err, &bad) || bad.key == "" || errors.Is(err, sluice.ErrUnknown) {
			return err
		}
		at := bad.argument / arguments
		sp.which, sp.err = append(sp.which, which[at]), errors.Join(sp.err, err)
		which = slices.Delete(which, at, at+1)
	}
	return nil
}
