"""A cluster of three nodes of the real program, on loopback, thrown away.

Everybody proves who they are: nodes have identities, the REST API is spoken to
over TLS, by a token of the role operator or an operator's certificate. Each
node has a store, serves NVMe/TCP, iSCSI and the API, and ends with the object.
"""

import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

BINARY = os.environ.get('AMITA_TEST_BINARY', 'amita')
PATIENCE = 120
# Cinder's scheduler counts whole GiB.
STORE = os.environ.get('AMITA_CINDER_STORE', '1500M')


# prctl(2): a process gets this signal when its parent has ended.
PR_SET_PDEATHSIG = 1


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count):
    """Ports that nobody listens at, each another one."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(('', 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


class Cluster:

    def __init__(self, folder, nodes=3, is_for_guests=False):
        """Guests reach what listens on 127.0.1.N by that address."""
        self.folder = pathlib.Path(folder)
        self.processes = {}
        self.environment = {**os.environ, 'AMITA_CORE_DUMPS': 'false'}
        for name in list(self.environment):
            if name.startswith('AMITA_') and name != 'AMITA_TEST_BINARY':
                del self.environment[name]
        self.ca = self.folder / 'ca'
        self.operator = self.folder / 'admin'
        self.is_for_guests = is_for_guests
        ports = free_ports(2 + 4 * nodes)
        self.metadata = f'https://127.0.0.1:{ports[0]}'
        self.ca_server = f'127.0.0.1:{ports[1]}'
        self.nodes = [f'n{number + 1}' for number in range(nodes)]
        self.ports = {
            name: dict(zip(('fabric', 'api', 'nvme', 'iscsi'),
                           ports[2 + 4 * number:6 + 4 * number]))
            for number, name in enumerate(self.nodes)}
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def file(self, name):
        return self.folder / name

    def address(self, name):
        """At which a node serves hosts."""
        if self.is_for_guests:
            return f'127.0.1.{self.nodes.index(name) + 1}'
        return '127.0.0.1'

    def endpoints(self):
        return [f'https://127.0.0.1:{self.ports[name]["api"]}'
                for name in self.nodes]

    def _start(self):
        self.run('cluster', 'init', '--ca', self.ca, '--identity',
                 self.operator)
        self._process('ca', ['ca', 'serve', '--ca', self.ca, '--listen',
                             self.ca_server])
        for name in ['metadata', *self.nodes]:
            self._join(name)
        self.run('host', 'seal-key', self.file('seal.key'))
        self.run('volume', 'key', 'init', self.file('volume.keys'))
        self._process('metadata', [
            'meta', '--identity', self.file('metadata.id'), '--listen',
            self.metadata.removeprefix('https://'), '--data',
            self.file('metadata.redb')])
        self.environment['AMITA_METADATA'] = self.metadata
        for name in self.nodes:
            self.run('disk', 'format', '--size', STORE,
                     self.file(f'{name}.img'))
            self.start_node(name)
        for pool, copies in (('main', 3), ('archive', 2)):
            copies = min(copies, len(self.nodes))
            self.until(f'pool {pool}', lambda: self._try(
                'pool', 'create', pool, '--copies', copies, '--min-copies',
                min(copies, 2)))
        for name, role in (('token', 'operator'), ('admin.token', 'admin')):
            self.file(name).touch(mode=0o600)
            said = self.amita('token', 'create', 'cinder', '--role', role)
            self.file(name).write_text(said.split()[0] + '\n')
        self.run('operator', 'create', 'cinder', '--ca', self.ca,
                 '--identity', self.file('cinder.id'))

    def _join(self, name):
        token = self.file(f'{name}.token')
        token.touch(mode=0o600)
        token.write_text(self.run('node', 'token', name, '--ca', self.ca))

        def joined():
            return self._try('node', 'join', name, '--ca-server',
                             self.ca_server, '--token-file', token,
                             '--identity', self.file(f'{name}.id'),
                             operator=False)
        self.until(f'{name} joins', joined)

    def start_node(self, name):
        ports = {kind: f'127.0.0.1:{port}'
                 for kind, port in self.ports[name].items()}
        for kind in ('nvme', 'iscsi'):
            ports[kind] = f'{self.address(name)}:{self.ports[name][kind]}'
        self._process(name, [
            'serve', '--name', name, '--identity', self.file(f'{name}.id'),
            '--store', self.file(f'{name}.img'), '--fabric', ports['fabric'],
            '--api', ports['api'], '--nvme', ports['nvme'], '--iscsi',
            ports['iscsi'], '--seal-key', self.file('seal.key'),
            '--volume-keys', self.file('volume.keys'), '--links', 'secret',
            '--cores', '1', '--pin', 'false', '--metrics', 'off',
            '--history', 'off'])

    def _process(self, name, words):
        log = open(self.file(f'{name}.log'), 'ab')
        with log:
            self.processes[name] = subprocess.Popen(
                [BINARY, *map(str, words)], cwd=self.folder, stdout=log,
                stderr=log, stdin=subprocess.DEVNULL, env=self.environment,
                preexec_fn=end_with_parent)

    def run(self, *words, operator=False):
        """A command; it must succeed."""
        words = [BINARY, *map(str, words)]
        if operator:
            words[1:1] = ['--identity', str(self.operator)]
        done = subprocess.run(words, cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE)
        if done.returncode:
            raise RuntimeError(f'{" ".join(words)}: {done.returncode}: '
                               f'{done.stdout}{done.stderr}')
        return done.stdout

    def amita(self, *words):
        """A command, as an admin."""
        return self.run(*words, operator=True)

    def json(self, *words):
        return json.loads(self.amita(*words, '--json'))

    def _try(self, *words, operator=True):
        try:
            self.run(*words, operator=operator)
            return True
        except RuntimeError as error:
            self.last = error
            return False

    def until(self, what, holds):
        until = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > until:
                raise RuntimeError(f'{what}: not within {PATIENCE} s: '
                                   f'{getattr(self, "last", "")}')
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f'{name} has ended: ' + self.file(
                        f'{name}.log').read_text()[-2000:])
            time.sleep(0.3)

    def kill(self, name):
        """A node is lost."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self):
        order = [*self.nodes, 'metadata', 'ca']
        for name in order:
            process = self.processes.get(name)
            if process is None:
                continue
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = {}
