package main

import _ "embed"

// samplePolicy is in force until there is another.
//
//go:embed sample.yaml
var samplePolicy []byte
