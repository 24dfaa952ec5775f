"""The driver: Cinder's interface, thin on the API of Amita's nodes.

It keeps nothing that it needs: no file, no record, no cache. What it knows
lies in the cluster (names, labels, who is let in) and in Cinder's database, so
that any number of cinder-volume processes may serve one backend,
active-active.
"""

import logging

from oslo_config import cfg
from oslo_utils import units

from cinder import exception
from cinder import interface
from cinder.objects import fields
from cinder.volume import configuration
from cinder.volume import driver
from cinder.volume import volume_utils

from amita_cinder import VERSION
from amita_cinder import errors
from amita_cinder import groups
from amita_cinder import images
from amita_cinder import left
from amita_cinder import manage
from amita_cinder import names
from amita_cinder import options
from amita_cinder import qos
from amita_cinder import replication
from amita_cinder import stats
from amita_cinder.errors import translated
from amita_cinder.names import volume_path

LOG = logging.getLogger(__name__)

cfg.CONF.register_opts(options.OPTIONS, group=configuration.SHARED_CONF_GROUP)

# While a volume has one of these, Cinder itself may have attached it to the
# host of cinder-volume, beside attachments of instances there.
ATTACHED_BY_CINDER = ('uploading', 'backing-up', 'downloading', 'creating')
# What the token has to allow; the role operator does.
NEEDED = ('host.allow', 'host.deny', 'namespace.add', 'snapshot.create',
          'snapshot.create-set', 'snapshot.delete', 'subsystem.create',
          'subsystem.delete', 'volume.clone', 'volume.copy', 'volume.create',
          'volume.delete', 'volume.label', 'volume.limit', 'volume.migrate',
          'volume.resize', 'volume.revert')


@interface.volumedriver
class AmitaDriver(driver.VolumeDriver):
    """Volumes of an Amita cluster, by NVMe/TCP or iSCSI.

    Version history:

    .. code-block:: none

        0.1.0 - Initial driver for Cinder 29
    """

    VERSION = VERSION
    # A driver in Cinder's tree names its third-party CI here.
    CI_WIKI_NAME = None
    SUPPORTS_ACTIVE_ACTIVE = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(options.OPTIONS)
        self.client = None
        self.volumes = None
        self.services = None
        self.service = None
        self.manager = None
        self.cluster_id = None
        self.left = left.Left(self._take_off, self._is_of)
        self.replication = None
        # Where it works: the section's own cluster, or the one that it has
        # failed over to.
        self.site = None
        self._active_backend_id = kwargs.get('active_backend_id')

    @staticmethod
    def get_driver_options():
        additional = driver.BaseVD._get_oslo_driver_opts(
            'use_chap_auth', 'reserved_percentage',
            'max_over_subscription_ratio', 'replication_device')
        return options.OPTIONS + additional

    # Start

    def do_setup(self, context):
        options.check(self.configuration)
        self.replication = replication.Replication(self.configuration)
        self._work_with(self.replication.site(self._active_backend_id))

    def _work_with(self, site):
        self.site = site
        self.client = site.client
        self.volumes = site.volumes
        self.services = site.services
        self.service = site.service
        self.manager = site.manager
        self.cluster_id = None
        self._stats = {}

    @translated('the cluster cannot be used')
    def check_for_setup_error(self):
        self._look_at_cluster()
        self._look_at_rights(self.site)
        far = self.replication.far
        if far is not None and self.site is not far:
            try:
                self._look_at_rights(far)
            except errors.NoAnswer as error:
                # It may be what is lost.
                LOG.warning('%s', errors.sentence(f'{far} is not there',
                                                  error))
        there = {pool['name'] for pool in self.client.list('/pools')}
        for name in self.site.configuration.amita_pools:
            if name not in there:
                raise options.wrong('amita_pools', name)
        if not there:
            raise exception.VolumeBackendAPIException(
                data='the cluster has no pool: amita pool create')

    def _look_at_rights(self, site):
        asking = site.client if site is self.site else site.briefly
        myself = asking.get('/self').body
        needed, role = NEEDED, 'operator'
        if self.replication.far is not None:
            needed, role = (*NEEDED, *replication.NEEDED), 'admin'
        lacking = [one for one in needed if one not in myself['may']]
        if lacking:
            raise exception.VolumeBackendAPIException(
                data=f'{myself["name"]} ({myself["role"]}) may not '
                     f'{", ".join(lacking)} at {site}: make a token of the '
                     f'role {role} (amita token create NAME --role {role})')

    def _look_at_cluster(self):
        if self.cluster_id is None:
            self.cluster_id = self.client.get('/cluster').body['id']
        return self.cluster_id

    # What there is

    def get_volume_stats(self, refresh=False):
        if refresh or not self._stats:
            self._update_volume_stats()
        return self._stats

    def _update_volume_stats(self):
        filters = {'filter_function': self.get_filter_function(),
                   'goodness_function': self.get_goodness_function()}
        try:
            self._stats = stats.backend(self.client, self.site.configuration,
                                        self._look_at_cluster(), filters,
                                        self._targets())
        except errors.ApiError as error:
            LOG.error('%s', errors.sentence('the cluster does not say what '
                                            'it has', error))
            # Nothing is placed here until it answers.
            pools = (self._stats or {}).get('pools', [])
            self._stats = {
                **stats.head(self.configuration, self._targets()),
                'backend_state': 'down',
                'pools': [{**pool, 'free_capacity_gb': 0,
                           'backend_state': 'down'} for pool in pools]}
            return
        self.left.look()

    def _targets(self):
        """Where what is made here is replicated to. Also while it has failed
        over: the scheduler lets nothing be done to volumes of a type that
        asks for it elsewhere."""
        far = self.replication.far
        return [far.backend_id] if far else []

    @translated('its pool is not known')
    def get_pool(self, volume):
        found = self.volumes.find(volume)
        return found.thing['pool'] if found else None

    # Volumes

    def _finish(self, volume, made, is_own, numbers):
        """What is left to do with a volume that is there: its size, and what
        its type asks for. Where that cannot be, what this call has made is
        undone: Cinder may make it elsewhere."""
        try:
            made = self.volumes.grow(made, volume.size * units.Gi)
            self._set_qos(made.thing['name'], numbers, volume.size)
            if self.replication.is_wanted(volume.volume_type):
                return self.replication.begin(volume, made, self.site)
        except Exception:
            if is_own:
                self._end_quietly(volume)
                self.volumes.undo(made)
            raise
        return None

    def _end_quietly(self, volume):
        """What is told is why it was not made."""
        try:
            self.replication.end(volume, self.site)
        except (errors.ApiError, exception.CinderException) as error:
            LOG.warning('volume %s is mirrored still: %s', volume.id, error)

    def _set_qos(self, name, numbers, size_gb, is_new=True, site=None):
        asking = (site or self.site).client
        limits = qos.limits(numbers, size_gb)
        priority = qos.priority(numbers)
        if limits or not is_new:
            asking.put(volume_path(name, 'limits'), limits)
        if priority or not is_new:
            asking.put(volume_path(name, 'priority'), priority)

    @translated('volume was not created')
    def create_volume(self, volume):
        numbers = qos.asked(volume.volume_type)
        made, is_own = self.volumes.create(
            volume, qos.wants_encryption(volume.volume_type))
        return self._finish(volume, made, is_own, numbers)

    def make_from(self, volume, of, snapshot, source):
        numbers = qos.asked(volume.volume_type)
        made, is_own = self.volumes.create_from(
            volume, of, snapshot, source,
            qos.wants_encryption(volume.volume_type))
        return self._finish(volume, made, is_own, numbers)

    @translated('volume was not created from the snapshot')
    def create_volume_from_snapshot(self, volume, snapshot):
        of, taken = self.volumes.get_snapshot(snapshot)
        return self.make_from(volume, of.thing, taken.thing['name'],
                              f'snapshot {snapshot.id}')

    @translated('volume was not cloned')
    def create_cloned_volume(self, volume, src_vref):
        of = self.volumes.get(src_vref).thing
        snapshot = names.clone_snapshot(volume.name_id)
        source = f'volume {src_vref.name_id}'
        if self.volumes.find(volume) is None:
            self.volumes.take_snapshot(of, snapshot,
                                       {names.TEMPORARY: volume.name_id})
        try:
            return self.make_from(volume, of, snapshot, source)
        finally:
            # The clone holds what it needs by itself.
            self.volumes.end_of_temporary(of['name'], snapshot)

    @translated('volume was not deleted')
    def delete_volume(self, volume):
        attached = [known for known in volume.volume_attachment
                    if known.attach_status ==
                    fields.VolumeAttachStatus.ATTACHED]
        if attached:
            raise exception.VolumeIsBusy(
                f'volume {volume.id} is attached to '
                f'{attached[0].attached_host}: detach it first')
        is_ended = False
        try:
            mirror = self.replication.find(volume, self.site)
            if mirror is not None:
                self.volumes.look_before_deletion(volume, mirror)
            # Of a volume that is mirrored nobody deletes anything.
            is_ended = True
            self.replication.end(volume, self.site)
            self.volumes.delete(volume, self._end_of_service)
        except exception.VolumeIsBusy as error:
            # The manager has it available again, and tells nobody why.
            LOG.error('volume %s is not deleted: %s', volume.id, error)
            if is_ended:
                self._begin_again(volume)
            raise

    @translated('volume was not extended')
    def extend_volume(self, volume, new_size):
        numbers = qos.asked(volume.volume_type)
        found = self.volumes.get(volume)
        self.volumes.grow(found, new_size * units.Gi)
        if qos.grows_with_size(numbers):
            self._set_qos(found.thing['name'], numbers, new_size)

    def _end_of_service(self, thing, snapshot=None):
        self.site.end_of_service(thing, snapshot)

    # Snapshots

    @translated('snapshot was not taken')
    def create_snapshot(self, snapshot):
        found = self.volumes.get(snapshot.volume)
        self.volumes.take_snapshot(found.thing, snapshot.name,
                                   {names.SNAPSHOT: snapshot.id})

    @translated('snapshot was not deleted')
    def delete_snapshot(self, snapshot):
        self.volumes.delete_snapshot(snapshot, self._end_of_service)

    def snapshot_revert_use_temp_snapshot(self):
        # A revert is one transaction: it is done or it is not.
        return False

    @translated('volume was not reverted')
    def revert_to_snapshot(self, context, volume, snapshot):
        self.volumes.revert(volume, snapshot, self._end_of_service)

    # Attachments

    def validate_connector(self, connector):
        self.service.host(connector)

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    @translated('volume was not attached')
    @left.turn
    def initialize_connection(self, volume, connector, **kwargs):
        found = self.volumes.get(volume)
        return self.service.attach(found.thing, connector)

    @translated('volume was not detached')
    def terminate_connection(self, volume, connector, **kwargs):
        """True: the host has it for others still. Without a connector it is
        taken from all."""
        host = self.service.host(connector) if connector else None
        if host and self._is_shared(volume, host):
            # With the others that end at this moment it is shared, too.
            self.left.add(volume, host)
            return True
        self._take_off(volume, host)
        self.left.discard(volume, host)
        return False

    def _is_shared(self, volume, host):
        """Do others on that host have it? The attachment that ends is among
        them, unless Cinder itself has had the volume attached."""
        known = [one for one in volume.volume_attachment
                 if self._is_of(one, host)]
        by_cinder = volume.status in ATTACHED_BY_CINDER
        return len(known) > (0 if by_cinder else 1)

    def _is_of(self, attachment, host):
        connector = attachment.connector
        return bool(connector and connector.get(self.service.HOST) and
                    self.service.host(connector) == host)

    def _take_off(self, volume, host):
        found = self.volumes.find(volume)
        if found is not None:
            self.service.detach(found.thing, host)

    @classmethod
    def clean_volume_file_locks(cls, volume_id):
        left.forget_turns(volume_id)

    def create_export_snapshot(self, context, snapshot, connector):
        pass

    def remove_export_snapshot(self, context, snapshot):
        pass

    @translated('snapshot was not attached')
    def initialize_connection_snapshot(self, snapshot, connector, **kwargs):
        of, taken = self.volumes.get_snapshot(snapshot)
        told = self.service.attach(of.thing, connector, taken.thing)
        told['data']['access_mode'] = 'ro'
        return told

    @translated('snapshot was not detached')
    def terminate_connection_snapshot(self, snapshot, connector, **kwargs):
        of = self.volumes.find(snapshot.volume)
        taken = of and self.volumes.find_snapshot(of.thing, snapshot)
        if taken:
            host = self.service.host(connector) if connector else None
            self.service.detach(of.thing, host, taken.thing)

    # Images

    @translated('image was not copied into the volume')
    def copy_image_to_volume(self, context, volume, image_service, image_id,
                             disable_sparse=False):
        if not self.configuration.amita_images_by_api:
            return super().copy_image_to_volume(
                context, volume, image_service, image_id,
                disable_sparse=disable_sparse)
        images.into_volume(self.client, context, self.volumes.get(volume),
                           volume, image_service, image_id,
                           self.configuration, disable_sparse)

    @translated('volume was not copied into an image')
    def copy_volume_to_image(self, context, volume, image_service,
                             image_meta):
        is_encrypted = bool(volume.encryption_key_id)
        if not self.configuration.amita_images_by_api or is_encrypted:
            return super().copy_volume_to_image(context, volume,
                                                image_service, image_meta)
        images.out_of_volume(self.client, context, self.volumes, volume,
                             image_service, image_meta)

    # Types and places

    @translated('volume was not given the type')
    def retype(self, context, volume, new_type, diff, host):
        """Limits, priority, pool and encryption, while hosts use it."""
        if not self._is_here(host):
            return False
        wanted = qos.asked(new_type)
        before = self._asked_before(volume)
        encrypted = qos.wants_encryption(new_type)
        found = self.volumes.get(volume)
        name = found.thing['name']
        pool = volume_utils.extract_host(host['host'], 'pool') or \
            found.thing['pool']
        replicated = self.replication.is_wanted(new_type)
        was_in = found.thing['pool']
        moves = was_in != pool or encrypted and not found.thing['encrypted']
        if replicated and moves:
            self.replication.check(volume, pool, self.site)
        self._set_qos(name, wanted, volume.size, is_new=False)
        is_ended = False
        try:
            if not replicated and moves:
                # What is mirrored is not moved.
                is_ended = True
                self.replication.end(volume, self.site)
            found = self.volumes.move(found, pool, encrypted)
            if replicated:
                return True, self._begin(volume, found, was_in)
            # Last, where it can be: the copy goes for good.
            is_ended = True
            self.replication.end(volume, self.site)
        except Exception:
            # It stays what it is: the manager may try by other means.
            if is_ended:
                self._begin_again(volume)
            elif replicated and not self.replication.is_wanted(
                    volume.volume_type):
                self._end_quietly(volume)
            self._set_qos(name, before, volume.size, is_new=False)
            raise
        return True, None

    def _begin(self, volume, found, was_in):
        """Mirrors what has the new type. One that was moved for that stays
        where it is, and Cinder has to know: so it has the type, and an error
        in its replication."""
        try:
            return self.replication.begin(volume, found, self.site)
        except (errors.ApiError, exception.CinderException) as error:
            if found.thing['pool'] == was_in:
                raise
            LOG.error('volume %s was moved to pool %s for its new type, and '
                      'is not replicated: %s; change its type to one that is '
                      'not replicated, and back', volume.id,
                      found.thing['pool'], error)
            self._end_quietly(volume)
            return {'replication_status': fields.ReplicationStatus.ERROR}

    def _begin_again(self, volume):
        """What has failed, a change of the type or a deletion, may have ended
        the mirror that the type asks for: all of it is copied anew. Where
        that cannot be Cinder says so of the volume, as the manager saves it.
        """
        if not self.replication.is_wanted(volume.volume_type):
            return
        may_be_there = True
        try:
            if self.replication.is_whole(volume, self.site):
                return
            LOG.warning('volume %s stays, and is copied anew to the other '
                        'cluster: until that is done it is not there',
                        volume.id)
            may_be_there = False
            self.replication.begin(volume, self.volumes.get(volume),
                                   self.site)
        except (errors.ApiError, exception.CinderException) as error:
            LOG.error('volume %s stays, and %s: %s; change its type to one '
                      'that is not replicated, and back', volume.id,
                      'nobody says whether it is replicated still'
                      if may_be_there else 'is replicated no more', error)
            if not may_be_there:
                self._end_quietly(volume)
            volume.replication_status = fields.ReplicationStatus.ERROR

    @staticmethod
    def _asked_before(volume):
        """What the type of now asks for; one that was spoiled since keeps no
        volume from another one."""
        try:
            return qos.asked(volume.volume_type)
        except exception.Invalid as error:
            LOG.warning('the type of volume %s: %s', volume.id, error)
            return {}

    def _is_here(self, host):
        """Is it of this cluster, by this protocol?"""
        told = host.get('capabilities') or {}
        where = told.get('location_info')
        return (where is None or
                where == stats.location(self._look_at_cluster())) and \
            self._is_by_same_protocol(told)

    def _is_by_same_protocol(self, told):
        """The scheduler puts all spellings of a protocol in its place."""
        protocol = told.get('storage_protocol')
        own = stats.PROTOCOLS[self.configuration.amita_protocol]
        return protocol is None or protocol == own or (
            isinstance(protocol, (list, tuple)) and own in protocol)

    @translated('volume was not migrated')
    def migrate_volume(self, context, volume, host):
        """Within the cluster, to a pool of this backend or of another one.
        """
        told = host.get('capabilities') or {}
        if told.get('location_info') != \
                stats.location(self._look_at_cluster()):
            return False, None
        pool = volume_utils.extract_host(host['host'], 'pool') or \
            told.get('pool_name')
        if not pool:
            return False, None
        found = self.volumes.get(volume)
        if not self._is_by_same_protocol(told):
            if volume.volume_attachment:
                return False, None
            # What a call that was cut off has left: the other backend would
            # find the volume taken, and never take it back.
            self._end_of_service(found.thing)
        self.volumes.move(found, pool, False)
        return True, None

    @translated('volume was not renamed')
    def update_migrated_volume(self, ctxt, volume, new_volume,
                               original_volume_status):
        """What was copied by Cinder gets the name of what it is a copy of.
        Where that is taken, or hosts have it, it stays as it is."""
        found = self.volumes.find(new_volume)
        kept = {'_name_id': new_volume.name_id,
                'provider_location': new_volume.provider_location}
        if found is None:
            return kept
        name = cfg.CONF.volume_name_template % volume.id
        if self.client.find(volume_path(name)) is not None or \
                self.replication.find(new_volume, self.site) is not None:
            return kept
        try:
            self.client.post(volume_path(found.thing['name'], 'rename'),
                             {'name': name})
        except errors.Refused as error:
            if not errors.is_code(error, 'in-use', 'exists', 'wrong-state'):
                raise
            LOG.info('volume %s keeps its name: %s', found.thing['name'],
                     error)
            return kept
        self.client.patch(volume_path(name),
                          {'labels': {names.VOLUME: volume.id}})
        return {'_name_id': None,
                'provider_location': new_volume.provider_location}

    @translated('the new owner of the volume is not noted')
    def accept_transfer(self, context, volume, new_user, new_project):
        found = self.volumes.find(volume)
        if found is not None:
            self.client.patch(
                volume_path(found.thing['name']),
                {'labels': {names.PROJECT: names.label(new_project)}})

    # Managed and unmanaged

    @translated('volume is not managed')
    def manage_existing(self, volume, existing_ref):
        numbers = qos.asked(volume.volume_type)
        replicated = self.replication.is_wanted(volume.volume_type)
        if replicated:
            self.replication.check(volume, self.volumes.pool_of(volume),
                                   self.site)
        found = self.manager.take(volume, existing_ref)
        size = manage.gigabytes(found.thing['size_bytes'])
        self._set_qos(found.thing['name'], numbers, size)
        if replicated:
            return self.replication.begin(volume, found, self.site)
        return None

    @translated('its size is not known')
    def manage_existing_get_size(self, volume, existing_ref):
        return self.manager.size(volume, existing_ref)

    @translated('volume is managed still')
    def unmanage(self, volume):
        """Not while it is replicated: its mirror would be nobody's, and
        without it the copy at the other cluster goes for good, which nobody
        has asked for."""
        if self.client.find(replication.mirror_path(volume)) is not None:
            why = (f'volume {volume.id} is replicated by mirror '
                   f'{names.mirror(volume.name_id)}: change its type to one '
                   f'that is not replicated first, which deletes the copy at '
                   f'the other cluster')
            # The manager has it available again, and tells nobody why.
            LOG.error('%s', why)
            raise exception.VolumeIsBusy(why)
        self.manager.leave(volume)

    @translated('volumes cannot be listed')
    def get_manageable_volumes(self, cinder_volumes, marker, limit, offset,
                               sort_keys, sort_dirs):
        pools = stats.names_of_pools(self.client, self.configuration)
        return self.manager.list(cinder_volumes, marker, limit, offset,
                                 sort_keys, sort_dirs, pools)

    @translated('snapshot is not managed')
    def manage_existing_snapshot(self, snapshot, existing_ref):
        return self.manager.take_snapshot(snapshot, existing_ref)

    @translated('its size is not known')
    def manage_existing_snapshot_get_size(self, snapshot, existing_ref):
        return self.manager.snapshot_size(snapshot, existing_ref)

    def unmanage_snapshot(self, snapshot):
        """It stays as it is: labels of a snapshot never change."""

    @translated('snapshots cannot be listed')
    def get_manageable_snapshots(self, cinder_snapshots, marker, limit,
                                 offset, sort_keys, sort_dirs):
        return self.manager.list_snapshots(cinder_snapshots, marker, limit,
                                           offset, sort_keys, sort_dirs)

    # Groups

    def create_group(self, context, group):
        groups.only_consistent(group)
        return {'status': fields.GroupStatus.AVAILABLE}

    def update_group(self, context, group, add_volumes=None,
                     remove_volumes=None):
        groups.only_consistent(group)
        return None, None, None

    @translated('group was not deleted')
    def delete_group(self, context, group, volumes):
        groups.only_consistent(group)
        return groups.delete_each(volumes, self.delete_volume, 'deleted',
                                  'error_deleting')

    @translated('group was not created')
    def create_group_from_src(self, context, group, volumes,
                              group_snapshot=None, snapshots=None,
                              source_group=None, source_vols=None):
        groups.only_consistent(group)
        if snapshots:
            for volume, snapshot in zip(volumes, snapshots):
                self.create_volume_from_snapshot(volume, snapshot)
        elif source_vols:
            groups.clone_group(self, self.volumes, group,
                               list(zip(volumes, source_vols)))
        return ({'status': fields.GroupStatus.AVAILABLE},
                [{'id': volume.id, 'status': 'available'}
                 for volume in volumes])

    @translated('snapshots of the group were not taken')
    def create_group_snapshot(self, context, group_snapshot, snapshots):
        groups.only_consistent(group_snapshot)
        return groups.create_snapshot(self.volumes, group_snapshot, snapshots)

    @translated('snapshots of the group were not deleted')
    def delete_group_snapshot(self, context, group_snapshot, snapshots):
        groups.only_consistent(group_snapshot)
        return groups.delete_each(snapshots, self.delete_snapshot, 'deleted',
                                  'error_deleting')

    # Replication

    @translated('volumes were not failed over')
    def failover(self, context, volumes, secondary_id=None, groups=None):
        """Has hosts use the replicated volumes at the other cluster; those
        that cannot be used there are errors, each for itself."""
        to = self.replication.target(secondary_id, self.site)

        def finish(volume):
            found = to.volumes.get(volume)
            self._set_qos(found.thing['name'], self._asked_before(volume),
                          volume.size, is_new=False, site=to)
        return to.backend_id, self.replication.switch(volumes, to, finish), []

    def failover_completed(self, context, active_backend_id=None):
        """All processes of a cluster of Cinder's are told."""
        self._work_with(self.replication.site(active_backend_id))

    def failover_host(self, context, volumes, secondary_id=None, groups=None):
        result = self.failover(context, volumes, secondary_id, groups)
        self.failover_completed(context, result[0])
        return result

    # Active-active: nothing of a backend is one process's alone.

    def _init_vendor_properties(self):
        properties = {}
        for key in sorted([*qos.KEYS, *qos.OWN]):
            self._set_property(properties, f'amita:{key}', key,
                               'A limit or a priority of the volume, in '
                               'docs/orchestrators/openstack.md.', 'integer')
        self._set_property(properties, 'amita:encrypted', 'Encrypted at rest',
                           'The volume is encrypted by keys of the cluster.',
                           'boolean', default=False)
        return properties, 'amita'
