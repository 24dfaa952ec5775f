"""What the scheduler is told: the pools of the cluster, and what they can."""

from oslo_utils import units

from cinder.common import constants

from amita_cinder import VERSION
from amita_cinder import options
from amita_cinder.client import quoted

PROTOCOLS = {options.NVME: constants.NVMEOF_TCP,
             options.ISCSI: constants.ISCSI}


def location(cluster_id):
    """By it a backend knows that another one is the same cluster."""
    return f'amita:{cluster_id}'


def names_of_pools(client, configuration):
    """Those of the section, or all."""
    there = [pool['name'] for pool in client.list('/pools')]
    wanted = configuration.amita_pools
    return [name for name in there if not wanted or name in wanted]


def gib(count):
    return round(count / units.Gi, 2)


def pool(details, ratio, reserved):
    """A pool as Cinder counts: bytes of data, each of which takes as many on
    disks as the pool has copies. A quota is a bound of what may be asked for:
    where it is tighter than the disks it is the capacity, elsewhere a bound
    of over-subscription."""
    copies = details['copies'] or 1
    total = details['raw_bytes'] // copies
    free = details['free_bytes'] // copies
    asked = details['asked']['provisioned_bytes']
    quota = details['quota'].get('provisioned_bytes')
    if quota is not None:
        free = min(free, max(quota - asked, 0))
        if quota < total:
            total, ratio = quota, 1.0
        elif total:
            ratio = max(1.0, min(ratio, quota / total))
    full = details['quota'].get('volumes') is not None and \
        details['asked']['volumes'] >= details['quota']['volumes']
    return {
        'pool_name': details['name'],
        'total_capacity_gb': gib(total),
        'free_capacity_gb': 0.0 if full else gib(free),
        'provisioned_capacity_gb': gib(asked),
        'total_volumes': details['asked']['volumes'],
        'reserved_percentage': reserved,
        'max_over_subscription_ratio': ratio,
        'thin_provisioning_support': True,
        'thick_provisioning_support': False,
        'multiattach': True,
        'online_extend_support': True,
        'QoS_support': True,
        'sparse_copy_volume': True,
        'clone_across_pools': True,
        'consistencygroup_support': False,
        'consistent_group_snapshot_enabled': True,
        'backend_state': 'up',
        'amita_copies': details['copies'],
        'amita_min_copies': details['min_copies'],
        'amita_level': details['level'],
        'amita_class': details['class'] or '',
    }


def replicated(targets):
    """Of a pool, and of the backend."""
    if not targets:
        return {'replication_enabled': False}
    return {'replication_enabled': True, 'replication_type': ['async'],
            'replication_count': len(targets),
            'replication_targets': targets}


def backend(client, configuration, cluster_id, filters, targets=()):
    """All of it. `filters` has what an operator's functions filter and weigh
    by; `targets` are the clusters that volumes are replicated to."""
    ratio = float(_ratio(configuration))
    reserved = configuration.safe_get('reserved_percentage') or 0
    pools = []
    for name in names_of_pools(client, configuration):
        answer = client.find(f'/pools/{quoted(name)}')
        if answer is not None:
            told = pool(answer.body, ratio, reserved)
            told.update(filters, location_info=location(cluster_id),
                        **replicated(targets))
            pools.append(told)
    return {**head(configuration, targets), 'pools': pools,
            'backend_state': 'up', 'location_info': location(cluster_id),
            **filters}


def head(configuration, targets=()):
    return {
        **replicated(targets),
        'volume_backend_name':
            configuration.safe_get('volume_backend_name') or 'Amita',
        'vendor_name': 'Amita',
        'driver_version': VERSION,
        'storage_protocol': PROTOCOLS[configuration.amita_protocol],
    }


def _ratio(configuration):
    """`auto` asks the driver to choose: 20, as Cinder does."""
    ratio = configuration.safe_get('max_over_subscription_ratio')
    return 20.0 if ratio in (None, 'auto') else ratio
