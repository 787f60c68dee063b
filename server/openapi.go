package server

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"sync"

	"go.yaml.in/yaml/v3"
)

// description is what the server does, for programs to read.
//
//go:embed openapi.yaml
var description []byte

// descriptionJSON is the same as JSON.
var descriptionJSON = sync.OnceValue(func() []byte {
	var v any
	err := yaml.Unmarshal(description, &v)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(v); err == nil {
			return text
		}
	}
	panic(err) // a test reads it
})

func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(description) //nolint:errcheck // the client is gone
}

func describeJSON(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(descriptionJSON()) //nolint:errcheck // the client is gone
}
