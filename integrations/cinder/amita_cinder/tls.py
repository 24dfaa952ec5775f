"""How nodes prove who they are.

A node has one or two certificates. What it shows to browsers
(`amita serve --api-certificate`) names its host, and is checked as any other.
Its identity in the cluster names no host: it says `amita://CLUSTER/node/NAME`
(a URI of the alternative names), and is made by the cluster's own authority.
Of that it is checked that the authority made it, and that it is a node's: an
operator or a client has a certificate of the same authority.
"""

import ssl

from requests import adapters
from urllib3 import connection
from urllib3 import connectionpool
from urllib3 import exceptions
from urllib3 import poolmanager

ROLES = ('node', 'gateway')


def roles_of(certificate):
    """The roles that a certificate (as `getpeercert` tells it) names."""
    names = certificate.get('subjectAltName', ())
    for kind, value in names:
        if kind == 'URI' and value.startswith('amita://'):
            parts = value.removeprefix('amita://').split('/')
            if len(parts) >= 3:
                yield parts[1]


class _Connection(connection.HTTPSConnection):
    """Checks the name in the cluster in place of the host's."""

    def __init__(self, *args, **kwargs):
        kwargs['assert_hostname'] = False
        super().__init__(*args, **kwargs)

    def connect(self):
        super().connect()
        certificate = self.sock.getpeercert() or {}
        if not any(role in ROLES for role in roles_of(certificate)):
            self.close()
            raise exceptions.SSLError(ssl.SSLCertVerificationError(
                f'{self.host}:{self.port} shows a certificate that is no '
                f'node\'s of the cluster'))


class _Pool(connectionpool.HTTPSConnectionPool):
    ConnectionCls = _Connection


class _ClusterAdapter(adapters.HTTPAdapter):

    def init_poolmanager(self, *args, **kwargs):
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {
            **poolmanager.pool_classes_by_scheme, 'https': _Pool}


def adapter(cluster_certificates, connections):
    kind = _ClusterAdapter if cluster_certificates else adapters.HTTPAdapter
    return kind(pool_maxsize=connections)
