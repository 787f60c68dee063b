package sluice

import (
	"errors"
	"sync"
	"time"
)

var zones sync.Map // name -> *time.Location; only names that loaded, so bounded by the zone database

// Zone loads a time zone by its IANA name, once. It knows no "Local" and no
// empty name: a quota must not depend on where a node happens to run.
func Zone(name string) (*time.Location, error) {
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	if name == "" || name == "Local" {
		return nil, errors.New("a time zone must be named")
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	zones.Store(name, loc)
	return loc, nil
}
