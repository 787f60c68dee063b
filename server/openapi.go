package server

import (
	_ "embed"
	"net/http"
)

// description is what the server does, for programs to read.
//
//go:embed openapi.yaml
var description []byte

func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(description) //nolint:errcheck // the client is gone
}
