package identity

import "strings"

// lastForwarded cuts the last element off a Forwarded header (RFC 7239) and
// gives the node in its "for" parameter, or "" if it has none.
//
// It reads from the right. What trusted proxies appended stands there and is
// well formed; what the client sent stands left of it, and an open quote in
// it must not swallow their part.
func lastForwarded(s string) (rest, node string, more bool) {
	start := 0
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == ',' {
			start, more = i+1, true
			break
		}
		if s[i] == '"' {
			open := openingQuote(s[:i])
			if open < 0 {
				return "", "", false // garbage: there is no telling what is inside
			}
			i = open
		}
	}
	element := s[start:]
	if more {
		rest = s[:start-1]
	}
	return rest, forNode(element), more
}

// openingQuote is the index of the last quote in s that no backslash escapes.
func openingQuote(s string) int {
	for {
		i := strings.LastIndexByte(s, '"')
		if i <= 0 || s[i-1] != '\\' {
			return i
		}
		s = s[:i-1]
	}
}

// forNode finds for=… in one element. Twice is garbage.
func forNode(element string) string {
	node, found := "", false
	for element != "" {
		var pair string
		pair, element = cutPair(element)
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !strings.EqualFold(strings.Trim(name, " \t"), "for") {
			continue
		}
		if found {
			return ""
		}
		node, found = unquote(strings.Trim(value, " \t")), true
	}
	return node
}

// cutPair cuts at the first semicolon outside quotes.
func cutPair(s string) (pair, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ';' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// unquote takes the quotes off. An address needs no escapes, so a value with
// one is garbage and stays as it is.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}
