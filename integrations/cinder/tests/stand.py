"""Cinder in one process: its REST API, a scheduler, and volume services with
this driver, on SQLite and the bus within a process (`fake://`).

usage: stand.py FOLDER

FOLDER has cinder.conf. It prints the address of the API when all is up, and
ends when its input does.
"""

# Before Cinder: eventlet, which it imports, leaves its own sockets in modules
# that are imported through it first.
import os
import socketserver
import sys
from wsgiref import simple_server

os.environ.setdefault('OS_CINDER_DISABLE_EVENTLET_PATCHING', 'true')
from cinder import monkey_patch  # noqa: E402
monkey_patch.patch()

import logging as python_logging  # noqa: E402
import pathlib  # noqa: E402
import select  # noqa: E402
import threading  # noqa: E402

import os_brick  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_log import log as logging  # noqa: E402
from oslo_service import wsgi  # noqa: E402
from sqlalchemy import engine  # noqa: E402
from sqlalchemy import event  # noqa: E402

from cinder.common import config  # noqa: E402
from cinder.common import constants  # noqa: E402
from cinder import coordination  # noqa: E402
from cinder.db import migration  # noqa: E402
from cinder import objects  # noqa: E402
from cinder import rpc  # noqa: E402
from cinder import service  # noqa: E402
from cinder import version  # noqa: E402

CONF = cfg.CONF
CONF.register_opt(cfg.StrOpt('cluster'))


# SQLite has one writer at a time: a transaction takes its turn when it begins,
# for one that has read already would be refused at once.
@event.listens_for(engine.Engine, 'before_cursor_execute', retval=True)
def take_turn(connection, cursor, statement, parameters, context, many):
    if statement == 'BEGIN':
        statement = 'BEGIN IMMEDIATE'
    return statement, parameters


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class Handler(simple_server.WSGIRequestHandler):
    def log_message(self, *arguments):
        pass


def serve(app):
    """Serves the API; its port."""
    if monkey_patch.is_patched():
        import eventlet
        from eventlet import wsgi as green
        listener = eventlet.listen(('127.0.0.1', 0))
        eventlet.spawn(green.server, listener, app, log_output=False)
        return listener.getsockname()[1]
    server = simple_server.make_server('127.0.0.1', 0, app, Server, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def volume_services():
    """One for each backend; in a cluster two, as two hosts have them."""
    for backend in CONF.enabled_backends:
        hosts = ['one', 'two'] if CONF.cluster else ['one']
        for host in hosts:
            yield service.Service.create(
                host=f'{host}@{backend}', service_name=backend,
                binary=constants.VOLUME_BINARY, coordination=True,
                cluster=f'{CONF.cluster}@{backend}' if CONF.cluster else None)


def lines():
    """Those of the input; others go on meanwhile, by eventlet too."""
    rest = b''
    while True:
        select.select([0], [], [])
        came = os.read(0, 4096)
        if not came:
            return
        *whole, rest = (rest + came).split(b'\n')
        yield from (line.decode() for line in whole)


def main(folder):
    objects.register_all()
    CONF(['--config-file', str(folder / 'cinder.conf')], project='cinder',
         version=version.version_string())
    logging.setup(CONF, 'cinder')
    python_logging.captureWarnings(True)
    os_brick.setup(CONF)
    config.set_middleware_defaults()
    migration.db_sync()
    rpc.init(CONF)
    coordination.COORDINATOR.start()
    scheduler = service.Service.create(binary=constants.SCHEDULER_BINARY)
    running = [scheduler, *volume_services()]
    for one in running:
        one.start()
    app = wsgi.Loader(CONF).load_app('osapi_volume')
    print(f'http://127.0.0.1:{serve(app)}', flush=True)
    names = {one.host: one for one in running}
    for line in lines():
        # One of the services ends, as if its host had.
        if line.strip() in names:
            # Its servers alone: the coordinator is the process's.
            one = names[line.strip()]
            for server in (one.rpcserver, one.backend_rpcserver,
                           one.cluster_rpcserver):
                server.stop()
                server.wait()
            print('stopped', flush=True)
    os._exit(0)


if __name__ == '__main__':
    main(pathlib.Path(sys.argv[1]))
