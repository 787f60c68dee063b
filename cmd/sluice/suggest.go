package main

import (
	"fmt"
	"strings"
)

// unknown says that a group has no such command, and which was meant.
func unknown(in *command, path []string, word string) error {
	where := strings.Join(path, " ")
	message := fmt.Sprintf("unknown command %q", word)
	if where != "" {
		message = where + ": " + message
	}
	if like := in.nearest(word); like != "" {
		message += fmt.Sprintf("; did you mean %q?", like)
	}
	return &usageError{message + "; see " + strings.TrimSpace("sluice help "+where)}
}

// nearest is the command whose name is most like word, if any is.
func (c *command) nearest(word string) string {
	best, least := "", min(3, len(word)/2+1)
	for _, s := range c.sub {
		d := distance(word, s.name)
		if len(word) > 1 && strings.HasPrefix(s.name, word) {
			d = min(d, 1)
		}
		if d < least {
			best, least = s.name, d
		}
	}
	return best
}

// distance is how many letters must be changed, added, removed or swapped with
// their neighbour to make b of a.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, old, row := rows[(i+2)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
