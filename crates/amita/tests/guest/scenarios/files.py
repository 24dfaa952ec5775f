"""Files that say themselves what is in them.

usage: files.py write FOLDER LOG STOP      files come and go in FOLDER, by several processes, until STOP is there
       files.py check FOLDER BEFORE AFTER  what the log said to be durable (BEFORE), and not to be going (AFTER), is whole

LOG is elsewhere than FOLDER. A line says what is durable from then on, or is perhaps there no more from then on:
"made NAME BYTES", "lines WRITER COUNT", "gone NAME 0".
"""

import os
import sys

WRITERS = 4
# Files that each has at one time: the oldest go.
LIVE = 40
LARGEST = 96 << 10
PIECE = 4096


def content(name, size):
    pieces = range(0, size, PIECE)
    return b"".join((b"%s %d " % (name.encode(), at)).ljust(64, b".") * (PIECE // 64) for at in pieces)[:size]


def line(writer, number):
    return (b"%s has written line %d" % (writer.encode(), number)).ljust(99, b".") + b"\n"


def put(path, data, flags):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    while data:
        data = data[os.write(file, data):]
    os.fsync(file)
    os.close(file)


def write(folder, log, stop, writer):
    own = os.path.join(folder, writer)
    os.makedirs(own)
    parent = os.open(folder, os.O_RDONLY)
    os.fsync(parent)
    place = os.open(own, os.O_RDONLY)
    log = os.open(log, os.O_WRONLY | os.O_APPEND)

    def say(*words):
        os.write(log, (" ".join(map(str, words)) + "\n").encode())

    number = 0
    while not os.path.exists(stop):
        put(os.path.join(own, "lines"), line(writer, number), os.O_APPEND)
        name, size = "%s-%d" % (writer, number), 1 + number * 7919 % LARGEST
        # Every other one comes by a rename, as who replaces files does it.
        first = name if number % 2 else "new"
        put(os.path.join(own, first), content(name, size), os.O_TRUNC)
        if first != name:
            os.rename(os.path.join(own, first), os.path.join(own, name))
        os.fsync(place)
        say("made", name, size)
        say("lines", writer, number + 1)
        if number >= LIVE:
            oldest = "%s-%d" % (writer, number - LIVE)
            say("gone", oldest, 0)
            os.unlink(os.path.join(own, oldest))
        number += 1


def entries(path):
    with open(path) as log:
        return [entry.split() for entry in log]


def found(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as why:
        return str(why).encode()


def check(folder, before, after):
    gone = {name for kind, name, _ in entries(after) if kind == "gone"}
    whole = {}
    lines = {}
    for kind, name, count in entries(before):
        if kind == "made" and name not in gone:
            whole[name] = int(count)
        elif kind == "lines":
            lines[name] = int(count)
    wrong = []
    for name, size in whole.items():
        held = found(os.path.join(folder, name.split("-")[0], name))
        if held != content(name, size):
            wrong.append("%s of %d bytes: %d, beginning with %r" % (name, size, len(held), held[:80]))
    for writer, count in lines.items():
        held = found(os.path.join(folder, writer, "lines"))
        if not held.startswith(b"".join(line(writer, number) for number in range(count))):
            wrong.append("the %d lines of writer %s: %d bytes" % (count, writer, len(held)))
    if len(lines) != WRITERS or not whole:
        wrong.append("only %d files of %d writers were durable: nothing is shown by that" % (len(whole), len(lines)))
    if wrong:
        sys.exit("%d of %d are not as they were:\n%s" % (len(wrong), len(whole) + len(lines), "\n".join(wrong[:10])))
    print("%d files of %d KiB and %d lines whole" % (len(whole), sum(whole.values()) >> 10, sum(lines.values())))


def main(what, folder, *others):
    if what == "check":
        return check(folder, *others)
    children = []
    for writer in range(WRITERS):
        child = os.fork()
        if child == 0:
            write(folder, *others, str(writer))
            os._exit(0)
        children.append(child)
    for child in children:
        if os.waitpid(child, 0)[1] != 0:
            sys.exit("a writer has failed")


main(*sys.argv[1:])
