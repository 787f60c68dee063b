package limitstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is the one that does everything, and its name for EVALSHA. It is put
// together from files in the order in which they need each other. Those that a
// lone take does without are in a function, because many locals cost even a
// script that returns before it comes to them.
var script, scriptSHA = func() (string, string) {
	text := luaText("prelude", "takes") + "local function others()\n" +
		luaText("common", "fasthold", "ticket", "state", "bucket", "change", "place", "receipt", "take", "adjust", "settle", "hold", "reset", "main") +
		"end\nreturn others()\n"
	sum := sha1.Sum([]byte(text))
	return text, hex.EncodeToString(sum[:])
}()

func luaText(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err)
		}
		b.Write(text)
	}
	return b.String()
}
