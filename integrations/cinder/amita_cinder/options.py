"""The settings of a backend section of cinder.conf."""

import collections
import urllib.parse

from oslo_config import cfg

from cinder import exception

NVME = 'nvme'
ISCSI = 'iscsi'

OPTIONS = [
    cfg.ListOpt('amita_api_endpoints',
                default=[],
                help='The REST APIs of nodes, as https://HOST:PORT or '
                     'HOST:PORT, separated by commas. Any node answers for '
                     'all; the next one is asked where one is away.'),
    cfg.StrOpt('amita_api_token_file',
               help='A file with a token of the role operator (amita token '
                    'create NAME --role operator). It is read again when it '
                    'has changed.'),
    cfg.StrOpt('amita_api_token',
               secret=True,
               help='The token itself, where no file has it.'),
    cfg.StrOpt('amita_api_certificate',
               help='A file with the certificate of an operator (cert.pem of '
                    'an identity), in place of a token.'),
    cfg.StrOpt('amita_api_key',
               help='The file with the key of that certificate (key.pem).'),
    cfg.StrOpt('amita_api_ca',
               help='A file with the authorities by which certificates of '
                    'nodes are checked; the system\'s where it is not set.'),
    cfg.BoolOpt('amita_api_cluster_certificates',
                default=False,
                help='Nodes show the certificates of their identities, which '
                     'name no host: they are checked by the authority of the '
                     'cluster (amita_api_ca: ca.pem of an identity) and by '
                     'their names in it. Leave it off where nodes have '
                     '--api-certificate.'),
    cfg.FloatOpt('amita_api_timeout',
                 default=60, min=1,
                 help='Seconds in which a node has to answer one request.'),
    cfg.FloatOpt('amita_api_patience',
                 default=90, min=1,
                 help='Seconds for which a request is sent again, to other '
                      'nodes too, before it is given up.'),
    cfg.ListOpt('amita_pools',
                default=[],
                help='The pools of the cluster that this backend offers; all '
                     'where it is not set.'),
    cfg.StrOpt('amita_protocol',
               default=NVME, choices=[NVME, ISCSI],
               help='By what hosts reach volumes: NVMe/TCP, or iSCSI.'),
    cfg.ListOpt('amita_gateways',
                default=[],
                help='The names of the nodes that serve volumes to hosts; '
                     'all that speak the protocol where it is not set.'),
    cfg.IntOpt('amita_portals',
               default=4, min=0,
               help='How many gateways a host is told of for one volume, the '
                    'owner first; 0: all.'),
    cfg.IntOpt('amita_block_bytes',
               default=512, choices=[512, 4096],
               help='The logical block of new volumes as hosts see it. A '
                    'volume keeps what it was made with.'),
    cfg.StrOpt('amita_delete',
               default='recycle', choices=['recycle', 'now'],
               help='What becomes of a deleted volume: it is kept for as '
                    'long as its pool says (amita pool recycle), and its '
                    'space with it, or goes for good at once.'),
    cfg.StrOpt('amita_chap_key',
               secret=True,
               help='With use_chap_auth, by iSCSI: the key of which the '
                    'secret of each initiator is made. The same one for all '
                    'backends of a cluster; 16 characters or more.'),
    cfg.BoolOpt('amita_images_by_api',
                default=False,
                help='Images are copied into volumes and out of them through '
                     'the API of a node, and not by attaching the volume to '
                     'the host of cinder-volume. For hosts that cannot '
                     'attach; image_conversion_dir needs room for an image.'),
    cfg.IntOpt('amita_migration_rate',
               default=0, min=0,
               help='Bytes a second that moves and copies between pools read '
                    'at most; 0: as many as hosts leave. 65536 is the '
                    'smallest other value.'),
    cfg.IntOpt('amita_migration_timeout',
               default=86400, min=60,
               help='Seconds after which a move between pools, or a copy, is '
                    'taken back.'),
    cfg.FloatOpt('amita_attach_wait',
                 default=1, min=0,
                 help='Seconds that are waited after a host was let in, '
                      'until gateways have heard of it.'),
    cfg.FloatOpt('amita_detach_wait',
                 default=2, min=0,
                 help='Seconds that are waited after a host was cut off, '
                      'until gateways have heard of it.'),
    cfg.ListOpt('amita_mirror_addresses',
                default=[],
                help='Where the cluster of replication_device reaches the '
                     'APIs of this one, as HOST:PORT; what nodes tell of '
                     'themselves where it is not set.'),
    cfg.IntOpt('amita_mirror_interval',
               default=60, min=10,
               help='Points of replicated volumes follow each other after so '
                    'many seconds: what was written since the last one is '
                    'lost where the cluster is.'),
    cfg.FloatOpt('amita_failover_timeout',
                 default=600, min=1,
                 help='Seconds in which a fail-over has to be done; volumes '
                      'that cannot be used by then are errors, and it can '
                      'be asked for again.'),
]

# What replication_device says of a cluster.
Device = collections.namedtuple('Device', (
    'backend_id', 'endpoints', 'token', 'token_file', 'certificate', 'key',
    'authority', 'cluster_certificates', 'pool', 'gateways', 'addresses'))
DEVICE_KEYS = ('backend_id', 'api_endpoints', 'api_token', 'api_token_file',
               'api_certificate', 'api_key', 'api_ca',
               'api_cluster_certificates', 'pool', 'gateways',
               'mirror_addresses')

LOOPBACK = ('localhost', '127.0.0.1', '::1')


def wrong(option, value):
    return exception.InvalidConfigurationValue(option=option, value=value)


def endpoint(text):
    """An endpoint as a URL. In the clear only to this machine itself."""
    text = text.strip()
    url = text if '://' in text else f'https://{text}'
    parts = urllib.parse.urlsplit(url)
    try:
        has_port = parts.port is not None
    except ValueError:
        has_port = False
    if (parts.scheme not in ('http', 'https') or not parts.hostname
            or not has_port or parts.path.strip('/') or parts.query
            or parts.username):
        raise wrong('amita_api_endpoints', text)
    if parts.scheme == 'http' and parts.hostname not in LOOPBACK:
        raise wrong('amita_api_endpoints',
                    f'{text} (http:// is for this machine alone: a token '
                    f'would travel in the clear)')
    return f'{parts.scheme}://{parts.netloc}'


def endpoints(texts):
    if not texts:
        raise wrong('amita_api_endpoints', '')
    return [endpoint(text) for text in texts]


def _listed(text):
    """Commas separate the keys of a device: lists are by semicolons."""
    return [one.strip() for one in (text or '').split(';') if one.strip()]


def device(configuration):
    """The cluster that is failed over to; none: there is none."""
    devices = configuration.safe_get('replication_device') or []
    if not devices:
        return None
    if len(devices) > 1:
        raise wrong('replication_device', f'{len(devices)} of them (a volume '
                                          f'is mirrored to one cluster)')
    said = dict(devices[0])
    unknown = [key for key in said if key not in DEVICE_KEYS]
    if unknown:
        raise wrong('replication_device', f'{unknown[0]} (known are '
                                          f'{", ".join(DEVICE_KEYS)})')
    if said.get('backend_id', 'default') in ('', 'default'):
        raise wrong('replication_device', 'no backend_id, or "default", '
                                          'which is this cluster itself')
    if bool(said.get('api_certificate')) != bool(said.get('api_key')):
        raise wrong('replication_device', 'api_certificate and api_key '
                                          'belong together')
    if said.get('api_token') and said.get('api_token_file'):
        raise wrong('replication_device', 'api_token and api_token_file: '
                                          'one of the two')
    by_cluster = said.get('api_cluster_certificates', '').lower() in (
        'true', 'yes', '1')
    if by_cluster and not said.get('api_ca'):
        raise wrong('replication_device', 'api_cluster_certificates wants '
                                          'api_ca')
    return Device(
        said['backend_id'], endpoints(_listed(said.get('api_endpoints'))),
        said.get('api_token'), said.get('api_token_file'),
        said.get('api_certificate'), said.get('api_key'), said.get('api_ca'),
        by_cluster, said.get('pool'), _listed(said.get('gateways')),
        _listed(said.get('mirror_addresses')))


def check(configuration):
    """What cannot be is said when the driver starts."""
    get = configuration.safe_get
    device(configuration)
    endpoints(get('amita_api_endpoints'))
    if bool(get('amita_api_certificate')) != bool(get('amita_api_key')):
        raise wrong('amita_api_certificate',
                    f'{get("amita_api_certificate")} (amita_api_certificate '
                    f'and amita_api_key belong together)')
    if get('amita_api_token') and get('amita_api_token_file'):
        raise wrong('amita_api_token',
                    '*** (and amita_api_token_file: one of the two)')
    rate = get('amita_migration_rate')
    if 0 < rate < 65536:
        raise wrong('amita_migration_rate', rate)
    if get('amita_api_cluster_certificates') and not get('amita_api_ca'):
        raise wrong('amita_api_cluster_certificates',
                    'True (amita_api_ca has to name the authority of the '
                    'cluster)')
    if get('amita_protocol') == ISCSI and get('use_chap_auth'):
        if len(get('amita_chap_key') or '') < 16:
            raise wrong('amita_chap_key', '*** (16 characters or more)')


def list_options():
    """For oslo-config-generator: a section of a backend has these, and the
    service of backups those."""
    from amita_cinder import backup
    return [('backend_defaults', OPTIONS), ('DEFAULT', backup.OPTIONS)]
