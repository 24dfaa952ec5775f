"""Volumes, snapshots and hosts as Cinder hands them to a driver, without its
database."""

import types
import uuid

from oslo_config import cfg

from cinder import context
from cinder import objects
from cinder.objects import fields
from cinder.volume import configuration
from cinder.volume import driver as base

from amita_cinder import driver as amita
from amita_cinder import names
from amita_cinder import options

objects.register_all()
CONTEXT = context.RequestContext('user', 'project', is_admin=True)
HOST = 'host@amita'


def settings(values, section):
    """A section of cinder.conf with these values."""
    made = configuration.Configuration(base.volume_opts + options.OPTIONS,
                                       config_group=section)
    for name, value in values.items():
        cfg.CONF.set_override(name, value, group=section)
    return made


def driver(values, section='amita', ready=True, active_backend_id=None):
    made = amita.AmitaDriver(configuration=settings(values, section),
                             host=HOST, active_backend_id=active_backend_id)
    if ready:
        made.do_setup(CONTEXT)
        made.check_for_setup_error()
    return made


def volume_type(extra=None, qos=None, consumer='back-end'):
    made = objects.VolumeType(CONTEXT, id=str(uuid.uuid4()),
                              extra_specs=extra or {})
    made.qos_specs_id = str(uuid.uuid4()) if qos else None
    made.qos_specs = objects.QualityOfServiceSpecs(
        CONTEXT, consumer=consumer, specs=qos) if qos else None
    return made


def volume(size=1, pool='main', kind=None, **more):
    values = {'id': str(uuid.uuid4()), 'size': size, '_name_id': None,
              'host': f'{HOST}#{pool}', 'project_id': 'a-project',
              'status': 'available', 'encryption_key_id': None,
              'provider_location': None, **more}
    made = objects.Volume(CONTEXT, **values)
    made.volume_type = kind
    made.volume_attachment = objects.VolumeAttachmentList(objects=[])
    return made


def attached(volume, *connectors):
    volume.volume_attachment = objects.VolumeAttachmentList(objects=[
        objects.VolumeAttachment(
            CONTEXT, id=str(uuid.uuid4()), volume_id=volume.id,
            attached_host=connector['host'], connector=connector,
            attach_status=fields.VolumeAttachStatus.ATTACHED)
        for connector in connectors])
    return volume


def snapshot(volume, group_snapshot_id=None, **more):
    made = objects.Snapshot(
        CONTEXT, id=str(uuid.uuid4()), volume_id=volume.id,
        volume_size=volume.size, provider_id=None,
        group_snapshot_id=group_snapshot_id, **more)
    made.volume = volume
    return made


def group(kind='a-type'):
    return types.SimpleNamespace(id=str(uuid.uuid4()), group_type_id=kind)


class Consistent:
    """A group whose type asks for snapshots of one moment."""

    def __init__(self):
        self.id = str(uuid.uuid4())
        self.group_type_id = 'consistent'

    def __getitem__(self, name):
        return getattr(self, name)


def connector(number=1):
    """What os-brick tells of a host."""
    host = uuid.UUID(int=number)
    return {'host': f'compute-{number}', 'ip': '127.0.0.1',
            'nqn': f'nqn.2014-08.org.nvmexpress:uuid:{host}',
            'initiator': f'iqn.1993-08.org.debian:01:{number:012x}',
            'multipath': True, 'nvme_native_multipath': True}


def there(driver, volume):
    """What Amita has of a volume; none: nothing."""
    answer = driver.client.find(names.volume_path(volume.name))
    return answer and answer.body


def snapshots(driver, volume, **more):
    path = names.volume_path(volume.name, 'snapshots')
    return [one['name'] for one in driver.client.list(path, **more)]
