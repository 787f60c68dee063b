// Package rules holds the rules of this repository as tests: how packages are
// named and documented, what may import what, and that links lead somewhere.
package rules
