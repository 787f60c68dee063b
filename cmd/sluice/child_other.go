//go:build !linux

package main

import "syscall"

func childOf(bool) *syscall.SysProcAttr { return nil }

func giveToPostgres(string) error { return nil }
