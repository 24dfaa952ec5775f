"""A guest with a stock Debian kernel in which os-brick connects volumes."""

import json
import os
import select
import shlex
import subprocess
import tempfile
import time

MARK = b'=answer= '
# Emulated machines are slow.
PATIENCE = 300


class Failed(Exception):
    """What the guest has said of a call that failed."""


class Hypervisor:

    def __init__(self, name):
        stage = os.environ['AMITA_TEST_STAGE']
        here = os.path.dirname(os.path.abspath(__file__))
        script = f'''
set -e
mkdir -p /run/brick /run/udev
tar -x -f {shlex.quote(stage)}/brick.tar -C /run/brick --no-same-owner
cp {shlex.quote(here)}/host.py /run/brick/
modprobe -qa nvme-tcp iscsi_tcp sd_mod dm_multipath dm_service_time \
    scsi_dh_alua crc32c
mkdir -p /run/lock/iscsi /etc/iscsi /etc/multipath
echo "InitiatorName=iqn.1993-08.org.debian:01:{name}" \
    >/etc/iscsi/initiatorname.iscsi
/usr/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=block --subsystem-match=scsi
udevadm settle
iscsid
multipathd
exec /run/brick/python /run/brick/host.py
'''
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [os.environ['AMITA_TEST_GUEST'], '--name', name, '--memory',
             '1536', '--share', stage, '--share', here, '--', 'bash', '-c',
             script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors)
        self.rest = b''
        self.said = []
        try:
            if self._answer() != 'ready':
                raise RuntimeError('the guest is not ready')
        except BaseException:
            self.end()
            raise

    def _lines(self, until):
        while True:
            *whole, self.rest = self.rest.split(b'\n')
            if whole:
                yield from whole
                continue
            left = until - time.monotonic()
            ready, _, _ = select.select([self.process.stdout], [], [],
                                        max(left, 0))
            came = os.read(self.process.stdout.fileno(), 65536) if ready \
                else b''
            if not came:
                self.errors.seek(0)
                raise RuntimeError(
                    'the guest does not answer; it has said: '
                    + '\n'.join(self.said[-40:])
                    + self.errors.read().decode(errors='replace')[-3000:])
            self.rest += came

    def _answer(self):
        for line in self._lines(time.monotonic() + PATIENCE):
            if line.startswith(MARK):
                return json.loads(line.removeprefix(MARK))
            self.said.append(line.decode(errors='replace'))

    def call(self, what, *arguments):
        """Does it there; what came of it."""
        self.process.stdin.write(json.dumps([what, *arguments]).encode()
                                 + b'\n')
        self.process.stdin.flush()
        answer = self._answer()
        if 'error' in answer:
            raise Failed(answer['error'])
        return answer['is']

    def until(self, what, holds, seconds=120):
        until = time.monotonic() + seconds
        while True:
            found = holds()
            if found:
                return found
            if time.monotonic() > until:
                raise AssertionError(f'{what}: not within {seconds} s\n'
                                     + '\n'.join(self.call('log', 30)))
            time.sleep(0.3)

    def end(self):
        # The emulator ends when this does.
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()
