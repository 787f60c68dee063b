package limitstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is the one that does everything, and its name for EVALSHA. It is put
// together from files in the order in which they need each other.
var script, scriptSHA = func() (string, string) {
	var b strings.Builder
	for _, name := range []string{
		"prelude", "alone", "fast", "fasthold", "ticket", "state", "bucket", "change", "place", "receipt", "take", "adjust", "settle", "hold", "reset", "main",
	} {
		b.WriteString(withIncludes(luaFile(name)))
	}
	text := strings.ReplaceAll(b.String(), "@", "") // where there is only one bucket
	sum := sha1.Sum([]byte(text))
	return text, hex.EncodeToString(sum[:])
}()

func luaFile(name string) string {
	b, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

var (
	inclusion     = regexp.MustCompile(`--include (\w+)(?: (\d))?\n`)
	repeatedLines = regexp.MustCompile(`(?s)--each\n(.*?)--end\n`)
	list          = regexp.MustCompile(`\[\[(.*?)(?: \|(.*?))?\]\]`)
)

// withIncludes puts files into text where it says --include and a name. With a
// number, what is about one bucket in the file is written out for so many.
func withIncludes(text string) string {
	return inclusion.ReplaceAllStringFunc(text, func(line string) string {
		m := inclusion.FindStringSubmatch(line)
		file := withIncludes(luaFile(m[1]))
		if n, err := strconv.Atoi(m[2]); err == nil {
			return writtenOut(file, n)
		}
		return file
	})
}

// writtenOut writes text out for n buckets. Lines between --each and --end are
// repeated, with the number of the bucket for each @. So is what stands in
// double brackets: as a list if there is an @ or comma in it, with what follows
// a | in between, or else, in the format of a struct, without anything.
func writtenOut(text string, n int) string {
	repeat := func(part, between string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = strings.ReplaceAll(part, "@", strconv.Itoa(i+1))
		}
		return strings.Join(all, between)
	}
	text = repeatedLines.ReplaceAllStringFunc(text, func(s string) string {
		return repeat(repeatedLines.FindStringSubmatch(s)[1], "")
	})
	return list.ReplaceAllStringFunc(text, func(s string) string {
		m := list.FindStringSubmatch(s)
		if m[2] == "" && strings.ContainsAny(m[1], "@,") {
			m[2] = ", "
		}
		return repeat(m[1], m[2])
	})
}
