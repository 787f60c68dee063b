package metrics

import "strings"

const other = "other"

// label makes a caller's string one that Prometheus accepts: it takes nothing
// but UTF-8, and stops the program otherwise.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
