"""A PyKMIP server on loopback with three keys, for the tests of `amita-node` (`volume_keys::kmip`).

usage: server.py FOLDER
FOLDER has ca.pem, server.pem, server.key, client.pem and client.key. Says in one line of JSON where it is and what its keys are called, and ends
when its standard input does.
"""

import json
import os
import signal
import socket
import sys
import threading
import time

from kmip import enums
from kmip.pie import client as pie
from kmip.services.server import KmipServer

folder = sys.argv[1]


def path(name):
    return os.path.join(folder, name)


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]

settings = {
    "hostname": "127.0.0.1",
    "port": port,
    "certificate_path": path("server.pem"),
    "key_path": path("server.key"),
    "ca_path": path("ca.pem"),
    "auth_suite": "TLS1.2",
    "policy_path": folder,
    "enable_tls_client_auth": True,
    "logging_level": "DEBUG",
    "database_path": path("server.db"),
}
with open(path("server.conf"), "w") as conf:
    conf.write("[server]\n" + "".join(f"{name}={value}\n" for name, value in settings.items()))

with open(path("client.conf"), "w") as conf:
    conf.write("[client]\n")

server = KmipServer(config_path=path("server.conf"), log_path=path("server.log"))


def connect():
    end = time.monotonic() + 60
    while True:
        try:
            client = pie.ProxyKmipClient(
                hostname="127.0.0.1",
                port=port,
                cert=path("client.pem"),
                key=path("client.key"),
                ca=path("ca.pem"),
                ssl_version="PROTOCOL_TLSv1_2",
                config_file=path("client.conf"),
                kmip_version=enums.KMIPVersion.KMIP_1_4,
            )
            client.open()
            return client
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def tell():
    try:
        client = connect()
        both = [enums.CryptographicUsageMask.ENCRYPT, enums.CryptographicUsageMask.DECRYPT]
        keys = {}
        for name, bits in (("first", 256), ("second", 256), ("asleep", 256), ("short", 128)):
            keys[name] = client.create(enums.CryptographicAlgorithm.AES, bits, cryptographic_usage_mask=both)
            if name != "asleep":
                client.activate(keys[name])
        print(json.dumps({"port": port, "keys": keys}), flush=True)
        sys.stdin.read()
    except Exception as why:
        print(json.dumps({"failed": repr(why)}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


threading.Thread(target=tell, daemon=True).start()
with server:
    server.serve()
