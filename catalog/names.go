package catalog

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
)

const (
	// MaxDepth is how many entities may stand above one another: an entity,
	// its parent, and so on. A take touches all that it cascades to.
	MaxDepth = 8

	// MaxLimits is how many limits one level may have. A take of the deepest
	// entity then still fits in [sluice.MaxDemands].
	MaxLimits = sluice.MaxDemands / MaxDepth

	// MaxName is the longest name of an entity, a resource, a tier, a limit
	// or a namespace, in bytes. It is what a [sluice.Key] takes.
	MaxName = sluice.MaxKeyPart

	// maxText is the longest text for people: a display name, a reason.
	maxText = 1000
)

// DefaultNamespace is always there.
const DefaultNamespace = "default"

// The subjects of audit events that are not about one entity.
const (
	SystemSubject          = "$SYSTEM"
	ResourceSubjectPrefix  = "$RESOURCE:"
	TierSubjectPrefix      = "$TIER:"
	NamespaceSubjectPrefix = "$NAMESPACE:"
)

// OtherEntity stands in usage for all entities beyond the number that a node
// keeps apart.
const OtherEntity = "$OTHER"

// checkID says what is wrong with the name of an entity or a resource. They
// come from outside (addresses, mail addresses, paths), so almost anything
// goes that can be printed and stored anywhere.
func checkID(field, s string) error {
	switch {
	case s == "":
		return badinput.Field(field, `""`, "must not be empty")
	case len(s) > MaxName:
		return badinput.Field(field, s, fmt.Sprintf("must be at most %d bytes long", MaxName))
	case !utf8.ValidString(s):
		return badinput.Field(field, s, "must be valid UTF-8")
	case s[0] == '$':
		return badinput.Field(field, s, "must not begin with $, which marks names of Sluice's own")
	case strings.ContainsFunc(s, unicode.IsControl):
		return badinput.Field(field, s, "must not have control characters")
	case strings.TrimSpace(s) != s:
		return badinput.Field(field, s, "must not begin or end with a space")
	}
	return nil
}

// checkName says what is wrong with a name that people choose: of a limit, a
// tier, a namespace, a scope.
func checkName(field, s string) error {
	if s == "" || len(s) > 64 || strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) >= 0 || !alphanumeric(rune(s[0])) {
		return badinput.Field(field, s,
			"must be 1 to 64 letters, digits, dots, dashes, colons or underscores, and begin with a letter or digit")
	}
	return nil
}

func alphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

func plain(r rune) bool { return alphanumeric(r) || strings.ContainsRune("._-:", r) }

// checkText says what is wrong with a text for people; it may be empty.
func checkText(field, s string) error {
	switch {
	case len(s) > maxText:
		return badinput.Field(field, s, fmt.Sprintf("must be at most %d bytes long", maxText))
	case !utf8.ValidString(s):
		return badinput.Field(field, s, "must be valid UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return badinput.Field(field, s, "must not have control characters")
	}
	return nil
}

// pageSize fills in the default size of a page.
func pageSize(n *int) error {
	if *n == 0 {
		*n = 100
	}
	if *n < 1 || *n > 1000 {
		return badinput.Field("max", *n, "must be 1 to 1000, or 0 for 100")
	}
	return nil
}
