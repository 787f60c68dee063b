package bucket

import (
	"time"

	"github.com/sluice-go/sluice"
)

// What stores have in common beside the arithmetic.

// SubWindows is the number of parts of a sliding window. It refuses
// nothing that an exact log over Period × (1 + 1/SubWindows) would allow.
const SubWindows = 32

// TicketLife is how long a store keeps a ticket that is not renewed.
const TicketLife = 5 * time.Second

// LeaseCostError returns the error of every store for a settlement whose costs it
// cannot set: of a limit that the lease does not have, or of concurrency, whose
// cost is fixed.
func LeaseCostError(limit string, fixed bool) error {
	if fixed {
		return &sluice.FieldError{Field: "lease.costs", Value: limit, Reason: "concurrency cannot be adjusted"}
	}
	return &sluice.FieldError{Field: "lease.costs", Value: limit, Reason: "the lease has no limit of this name"}
}
