package redis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is the one that does everything, and its name for EVALSHA. It is put
// together from files in the order in which they need each other.
var script, scriptSHA = func() (string, string) {
	read := func(name string) string {
		b, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err)
		}
		return string(b) + "\n"
	}
	var b strings.Builder
	for _, name := range []string{
		"prelude", "fast", "fasthold", "state", "bucket", "place", "receipt", "take", "adjust", "settle", "hold", "reset", "main",
	} {
		b.WriteString(read(name))
	}
	text := b.String()
	for _, name := range []string{"part", "refill", "window"} {
		text = strings.ReplaceAll(text, "--include "+name, read(name))
	}
	sum := sha1.Sum([]byte(text))
	return text, hex.EncodeToString(sum[:])
}()
