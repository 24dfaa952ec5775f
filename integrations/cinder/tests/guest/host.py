"""A hypervisor, as far as its volumes go: os-brick as Nova has it, in a guest.

It takes a line of JSON, `[what, ...]`, and answers with one behind MARK.
os-brick is what its wheel has, with nothing in its place: what needs rights
goes through oslo.privsep's daemon, which is started by its own helper.
"""

import hashlib
import json
import logging as python_logging
import mmap
import os
import pathlib
import subprocess
import sys
import threading
import time
import traceback

MARK = '=answer= '
PLACE = '/run/brick'
SETTINGS = f'''[oslo_concurrency]
lock_path = {PLACE}/locks
[privsep_osbrick]
helper_command = {PLACE}/privsep-helper --config-file {PLACE}/brick.conf
'''
CHUNK = 1 << 20
SYSFS = pathlib.Path('/sys/class')

pathlib.Path(PLACE, 'brick.conf').write_text(SETTINGS)
pathlib.Path(PLACE, 'locks').mkdir(exist_ok=True)

import os_brick  # noqa: E402
from os_brick.initiator import connector as brick  # noqa: E402
from oslo_config import cfg  # noqa: E402

cfg.CONF(['--config-file', f'{PLACE}/brick.conf'], project='nova')
os_brick.setup(cfg.CONF)
python_logging.basicConfig(filename=f'{PLACE}/log',
                           level=python_logging.DEBUG)


def read(path):
    try:
        return path.read_text().strip()
    except OSError:
        return None


def connector_of(protocol):
    return brick.InitiatorConnector.factory(
        protocol, '', use_multipath=True, device_scan_attempts=5)


def properties():
    return brick.get_connector_properties('', '10.0.2.15', True, True)


def connect(protocol, data):
    return connector_of(protocol).connect_volume(data)


def extend(protocol, data):
    return connector_of(protocol).extend_volume(data)


def disconnect(protocol, data, device, force):
    connector_of(protocol).disconnect_volume(data, device, force=force,
                                             ignore_errors=force)


def paths(nqn):
    """The controllers of a subsystem: state and address of each."""
    return sorted([read(one / 'state'), read(one / 'address')]
                  for one in (SYSFS / 'nvme').glob('nvme*')
                  if read(one / 'subsysnqn') == nqn)


def legs(path):
    """The disks of a multipath map, and the portals of its sessions."""
    name = os.path.basename(os.path.realpath(path))
    return [sorted(one.name for one in (pathlib.Path('/sys/block') / name /
                                        'slaves').glob('*')),
            sorted(f'{read(one / "persistent_address")}:'
                   f'{read(one / "persistent_port")}'
                   for one in (SYSFS / 'iscsi_connection').glob('*'))]


def left():
    """All that the kernel has of NVMe and iSCSI, and open-iscsi's records.
    """
    return sorted([*map(str, (SYSFS / 'iscsi_session').glob('*')),
                   *map(str, pathlib.Path('/sys/block').glob('dm-*')),
                   *map(str, pathlib.Path('/sys/block').glob('sd*')),
                   *map(str, pathlib.Path('/etc/iscsi/nodes').glob('*')),
                   *map(str, (SYSFS / 'nvme').glob('nvme*')),
                   *map(str, (SYSFS / 'nvme-subsystem').glob('*')),
                   *map(str, pathlib.Path('/dev').glob('nvme*n*'))])


def size(path):
    said = subprocess.run(['blockdev', '--getsize64', path], check=True,
                          capture_output=True, text=True)
    return int(said.stdout)


def _pages(seed, count):
    """Pages that differ, each filled by what it is."""
    for number in range(count):
        yield hashlib.sha256(f'{seed} {number}'.encode()).digest() * 128


def _aligned():
    return mmap.mmap(-1, CHUNK)


def write(path, offset, seed, count):
    """Writes whole pages past the cache of the guest; their SHA-256."""
    device = os.open(path, os.O_RDWR | os.O_DIRECT)
    digest = hashlib.sha256()
    buffer = _aligned()
    try:
        for page in _pages(seed, count):
            buffer[:4096] = page
            with memoryview(buffer) as view, view[:4096] as part:
                done = os.pwrite(device, part, offset)
            if done != 4096:
                raise OSError(f'{done} of 4096 bytes at {offset}')
            digest.update(page)
            offset += 4096
        os.fsync(device)
    finally:
        os.close(device)
    return digest.hexdigest()


def digest(path, offset, count):
    """SHA-256 of what the device has, past the cache of the guest."""
    device = os.open(path, os.O_RDONLY | os.O_DIRECT)
    found = hashlib.sha256()
    buffer = _aligned()
    try:
        for number in range(count):
            with memoryview(buffer) as view, view[:4096] as part:
                got = os.preadv(device, [part], offset + number * 4096)
            if got != 4096:
                raise OSError(f'{got} of 4096 bytes')
            found.update(buffer[:4096])
    finally:
        os.close(device)
    return found.hexdigest()


class Writing:
    """Writes in the background until it is told to end: what was written
    whole is remembered, an error ends it."""

    def __init__(self, path, offset):
        self.path, self.offset = path, offset
        self.rounds, self.error = 0, None
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            while not self.ends.is_set():
                write(self.path, self.offset, f'round {self.rounds}', 16)
                self.rounds += 1
        except Exception as error:
            self.error = repr(error)


writing = None


def begin_writing(path, offset):
    global writing
    writing = Writing(path, offset)


def rounds():
    return [writing.rounds, writing.error]


def end_writing():
    writing.ends.set()
    writing.thread.join(120)
    return [writing.rounds, writing.error,
            digest(writing.path, writing.offset, 16),
            write(writing.path, writing.offset, f'round {writing.rounds - 1}',
                  16)]


def try_to_write(path, offset, seed, seconds):
    """Another process tries to, for so long; is it done?"""
    child = os.fork()
    if not child:
        try:
            write(path, offset, seed, 1)
            os._exit(0)
        except BaseException:
            os._exit(1)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return 'written' if status == 0 else 'refused'
        time.sleep(0.1)
    return 'waits'


def log(lines):
    return pathlib.Path(PLACE, 'log').read_text().splitlines()[-lines:]


CALLS = {call.__name__: call for call in (
    properties, connect, extend, disconnect, paths, legs, left, size, write,
    digest, begin_writing, rounds, end_writing, try_to_write, log)}


def main():
    print(MARK + '"ready"', flush=True)
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        try:
            answer = {'is': CALLS[what](*arguments)}
        except BaseException:
            answer = {'error': traceback.format_exc()}
        print(MARK + json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
