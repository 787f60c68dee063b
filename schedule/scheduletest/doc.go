// Package scheduletest is the conformance suite of [schedule.Store]: what every
// store must do, tested through a scheduler.
package scheduletest
