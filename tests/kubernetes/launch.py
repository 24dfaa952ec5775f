"""Becomes a program that is killed when whoever has started it is gone; on a host of its own name, and as another user, where that is said.

usage: launch.py HOST USER PARENT PROGRAM WORD...

A pod's host has its name, and leader election goes by that. Its program is opened before the user changes: it may lie where that may not go.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CLONE_NEWUTS, CLONE_NEWUSER = 0x04000000, 0x10000000


def main():
    host, user, parent, *words = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if host:
        apart = CLONE_NEWUTS if os.geteuid() == 0 else CLONE_NEWUTS | CLONE_NEWUSER
        name = host.encode()
        if libc.unshare(apart) or libc.sethostname(name, len(name)):
            sys.exit(f"no host's name of its own: {os.strerror(ctypes.get_errno())}")
    program = os.open(words[0], os.O_RDONLY | os.O_CLOEXEC)
    if user:
        os.setgroups([])
        os.setresgid(int(user), int(user), int(user))
        os.setresuid(int(user), int(user), int(user))
    # Behind the change of the user, which takes it back.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit("whoever has started it is gone")
    os.execve(program, words, dict(os.environ))


main()
