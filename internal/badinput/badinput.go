// Package badinput says what is wrong with a field of the input.
package badinput

import "github.com/sluice-go/sluice"

// Field returns a *[sluice.FieldError].
func Field(field string, value any, reason string) error {
	return &sluice.FieldError{Field: field, Value: value, Reason: reason}
}
