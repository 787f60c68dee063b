package abuse

import "strings"

// Mask hides an identifier except for its kind and its last characters, of which
// at most keep are shown and never more than a third: "user:****lice".
func Mask(entity string, keep int) string {
	kind, name, ok := strings.Cut(entity, ":")
	if !ok {
		kind, name = "", entity
	} else {
		kind += ":"
	}
	runes := []rune(name)
	keep = min(max(keep, 0), len(runes)/3)
	return kind + "****" + string(runes[len(runes)-keep:])
}
