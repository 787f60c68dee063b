package main

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// childOf is how servers for development run: out of reach of Ctrl-C, which is
// for this process, and not longer than it. PostgreSQL refuses to be root.
func childOf(asPostgres bool) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if asPostgres && os.Geteuid() == 0 {
		if uid, gid, err := postgresUser(); err == nil {
			attributes.Credential = &syscall.Credential{Uid: uid, Gid: gid}
		}
	}
	return attributes
}

func postgresUser() (uid, gid uint32, err error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, errors.New("there is no user postgres, and root may not run PostgreSQL: use another user, or --only redis")
	}
	ids := [2]uint64{}
	for i, text := range []string{u.Uid, u.Gid} {
		if ids[i], err = strconv.ParseUint(text, 10, 32); err != nil {
			return 0, 0, err
		}
	}
	return uint32(ids[0]), uint32(ids[1]), nil
}

// giveToPostgres lets the user that PostgreSQL runs as write to a folder.
func giveToPostgres(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := postgresUser()
	if err != nil {
		return err
	}
	return os.Chown(dir, int(uid), int(gid))
}
