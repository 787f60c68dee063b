// Package temporal joins Sluice and Temporal.
//
//   - [Starter] starts workflows in slots: an event first gets its slot, then a
//     workflow that Temporal begins when the slot has come. Until then Temporal
//     does nothing for it.
//   - [Target] starts a workflow for each call of a plan's HTTP target, for
//     services in other languages. Command sluice-temporal serves it.
//   - [Limit] has activities take from a limiter before they run: one limit for
//     any number of task queues, worker fleets and namespaces.
//
// The workflow id is the event id. Each is used for one workflow and never
// again, which is what makes every call here safe to repeat.
package temporal
