// Package postgrestest starts real PostgreSQL and PgBouncer servers for tests
// and benchmarks, on free ports of the loopback interface, from the binaries
// that Debian installs. They run as the user postgres if the caller is root,
// which PostgreSQL refuses to be, and end with the process that started them.
package postgrestest
