"""Replication: volumes that a second cluster has as well, by mirrors.

Each replicated volume has a mirror of its own, `cinder-UUID`, whose near end
is the cluster of `amita_api_endpoints` and whose far end that of
`replication_device`. Where a volume may be used is written in the mirror, at
both ends, and nowhere else: so whatever was cut off is looked at anew, and
gone on with. Which cluster the driver works with is Cinder's to say
(`active_backend_id`).
"""

import logging
import time

from cinder import exception
from cinder.objects import fields
from cinder.volume import volume_utils

from amita_cinder import attach
from amita_cinder import client
from amita_cinder import errors
from amita_cinder import manage
from amita_cinder import names
from amita_cinder import options
from amita_cinder import volumes as storage
from amita_cinder.client import quoted
from amita_cinder.names import volume_path

LOG = logging.getLogger(__name__)

# What Cinder calls the cluster of the section itself.
DEFAULT = 'default'
# A cluster of which one can do without is waited for no longer than this.
BRIEF_SECONDS = 20.0
# Looks at the ends follow each other after so many seconds.
LOOK_SECONDS = 0.5
# An end that was deposed hears of it within so many seconds where both
# clusters reach each other.
HEARING_SECONDS = 30.0
# What the token has to allow at both clusters, beside all else; the role
# admin does.
NEEDED = ('mirror.add', 'mirror.demote', 'mirror.force', 'mirror.promote',
          'mirror.remove', 'mirror.resync')


def mirror_path(volume, *more):
    name = names.mirror(volume.name_id)
    return '/'.join(['/mirrors', quoted(name), *map(quoted, more)])


class Section:
    """The settings of the backend section, some of them others."""

    def __init__(self, configuration, **other):
        self._configuration = configuration
        self._other = other

    def __getattr__(self, name):
        if name in self._other:
            return self._other[name]
        return getattr(self._configuration, name)

    def safe_get(self, name):
        if name in self._other:
            return self._other[name]
        return self._configuration.safe_get(name)


class Site:
    """A cluster, and all that the driver does with it."""

    def __init__(self, backend_id, configuration, asking, briefly):
        self.backend_id = backend_id
        self.configuration = configuration
        self.client = asking
        # For what is left undone where it does not answer.
        self.briefly = briefly
        self.volumes = storage.Volumes(asking, configuration)
        self.services = [kind(asking, configuration)
                         for kind in (attach.Nvme, attach.Iscsi)]
        self.service = self.services[
            configuration.safe_get('amita_protocol') == options.ISCSI]
        self.manager = manage.Manager(self.volumes)
        self.addresses = configuration.safe_get('amita_mirror_addresses')

    def end_of_service(self, thing, snapshot=None):
        """Takes it from all hosts, by whatever protocol a backend of before
        has given it to them."""
        for service in self.services:
            service.end(thing, snapshot)

    def __str__(self):
        return 'the cluster of the section' if self.backend_id == DEFAULT \
            else f'cluster {self.backend_id}'


def near(configuration):
    """The cluster of the section itself."""
    get = configuration.safe_get

    def asking(patience):
        return client.Client(
            options.endpoints(get('amita_api_endpoints')),
            client.Credentials(
                token=get('amita_api_token'),
                token_file=get('amita_api_token_file'),
                certificate=get('amita_api_certificate'),
                key=get('amita_api_key')),
            authority=get('amita_api_ca'),
            cluster_certificates=get('amita_api_cluster_certificates'),
            timeout=get('amita_api_timeout'), patience=patience)
    patience = get('amita_api_patience')
    return Site(DEFAULT, configuration, asking(patience),
                asking(min(patience, BRIEF_SECONDS)))


def far(configuration):
    """The cluster that it fails over to; none: there is none."""
    device = options.device(configuration)
    if device is None:
        return None
    own = Section(configuration, amita_pools=[],
                  amita_gateways=device.gateways,
                  amita_mirror_addresses=device.addresses)

    def asking(patience):
        return client.Client(
            device.endpoints,
            client.Credentials(
                token=device.token, token_file=device.token_file,
                certificate=device.certificate, key=device.key),
            authority=device.authority,
            cluster_certificates=device.cluster_certificates,
            timeout=configuration.safe_get('amita_api_timeout'),
            patience=patience)
    patience = configuration.safe_get('amita_api_patience')
    site = Site(device.backend_id, own, asking(patience),
                asking(min(patience, BRIEF_SECONDS)))
    site.pool = device.pool
    return site


class Waiting(Exception):
    """It is not so yet; why, for who waits longer than is waited."""


class Replication:

    def __init__(self, configuration):
        self.configuration = configuration
        self.near = near(configuration)
        self.far = far(configuration)

    def site(self, backend_id):
        """The cluster that Cinder calls so; the section's own has no name."""
        if backend_id in (None, '', DEFAULT):
            return self.near
        if self.far is not None and backend_id == self.far.backend_id:
            return self.far
        known = self.far.backend_id if self.far else 'none'
        raise exception.InvalidReplicationTarget(
            reason=f'replication_device names no backend_id {backend_id}; '
                   f'there is {known}')

    def target(self, backend_id, active):
        """Where Cinder wants the volumes to be used."""
        if self.far is None:
            raise exception.InvalidReplicationTarget(
                reason='the section has no replication_device')
        if backend_id is None and active is not self.near:
            raise exception.InvalidReplicationTarget(
                reason=f'it has failed over to {active.backend_id}: say '
                       f'{DEFAULT} to go back')
        to = self.site(backend_id) if backend_id else self.far
        try:
            to.briefly.get('/self')
        except errors.ApiError as error:
            # Cinder leaves all as it is, and may be asked again.
            raise exception.InvalidReplicationTarget(
                reason=errors.sentence(f'{to} is not to be had', error)
            ) from error
        return to

    def other(self, site):
        return self.far if site is self.near else self.near

    # One volume

    def is_wanted(self, volume_type):
        return volume_type is not None and \
            volume_utils.is_replicated_spec(volume_type.extra_specs)

    def find(self, volume, site, briefly=False):
        """The mirror of a volume, as that end is; none: there is none."""
        if self.far is None:
            return None
        asking = site.briefly if briefly else site.client
        answer = asking.find(mirror_path(volume))
        return answer and answer.body

    def check(self, volume, pool, active):
        """Would a volume of that pool be mirrored, as far as one can know
        before? It is asked where what comes before cannot be undone."""
        self._may_begin(volume, active)
        pool = self.far.pool or pool
        if self.far.briefly.find(f'/pools/{quoted(pool)}') is None:
            raise exception.ReplicationError(
                volume_id=volume.id,
                reason=f'{self.far} has no pool {pool}: make it there, or '
                       f'name another one by pool of replication_device')

    def _may_begin(self, volume, active):
        if self.far is None:
            raise exception.ReplicationError(
                volume_id=volume.id,
                reason='its type is replicated, and the section of this '
                       'backend has no replication_device')
        if active is not self.near:
            raise exception.ReplicationError(
                volume_id=volume.id,
                reason=f'the backend has failed over to {active.backend_id}, '
                       f'from where nothing is replicated anew: go back '
                       f'first (cinder failover-host --backend_id '
                       f'{DEFAULT}), or use a type that is not replicated')

    def begin(self, volume, found, active):
        """Mirrors a volume of the near cluster. Its name and its labels are
        the far one's too, which has it closed to hosts."""
        self._may_begin(volume, active)
        interval = self.configuration.amita_mirror_interval
        name = found.thing['name']
        made = self._made(volume, name, interval)
        self.far.client.post('/mirror-joins', {
            'bootstrap': made.body['bootstrap'],
            'pool': self.far.pool or found.thing['pool'],
            'interval_s': interval, 'addresses': self.far.addresses})
        labels = {key: value for key, value in found.thing['labels'].items()
                  if key in names.OWN}
        self.far.client.patch(volume_path(name), {'labels': labels})
        return {'replication_status': fields.ReplicationStatus.ENABLED}

    def _made(self, volume, name, interval):
        """The near end, and what it is joined by. One that is there is of a
        call that was cut off, whose token nobody knows."""
        reached = {'addresses': self.near.addresses}
        if self.find(volume, self.near) is None:
            try:
                return self.near.client.post('/mirrors', {
                    'name': names.mirror(volume.name_id), 'volumes': [name],
                    'interval_s': interval, **reached})
            except errors.Refused as error:
                # Of two at one time the other one has made it, or an answer
                # was lost and it was sent again.
                if error.code != 'exists':
                    raise
        return self.near.client.post(mirror_path(volume, 'token'), reached)

    def is_whole(self, volume, active):
        """Has it a mirror still, and the copy? Where the other cluster does
        not say, the end that is here is taken for an answer: it goes last,
        and while it is there the copy may be, too."""
        if self.find(volume, active) is None:
            return False
        other = self.other(active)
        try:
            there = self.find(volume, other, briefly=True)
            return there is not None and all(
                other.briefly.find(volume_path(name)) is not None
                for name in there['volumes'])
        except errors.ApiError as error:
            LOG.warning('%s does not say whether it has volume %s still: %s; '
                        'its mirror here is left as it is (amita mirror show '
                        '%s)', other, volume.id, error,
                        names.mirror(volume.name_id))
            return True

    def end(self, volume, active):
        """Mirrors it no longer: it stays where it is used, and the other
        cluster's is deleted for good.

        That goes first. Behind a fail-over by force the other end is a
        primary until it has heard of that, of which nothing is deleted; and
        it hears of it from this end alone, while there is one.
        """
        if self.far is None:
            return
        # Where nobody answers here nothing is deleted there.
        here = self.find(volume, active)
        other = self.other(active)
        try:
            self._end_other(volume, here, other)
        except errors.NoAnswer as error:
            # A site that is lost keeps nobody from deleting.
            name = names.mirror(volume.name_id)
            LOG.warning('%s does not answer, and keeps what it may have of '
                        'volume %s: amita mirror remove %s --delete, there; '
                        'where it is primary there, without --delete, and '
                        'then the volume (%s)', other, volume.id, name, error)
        if here is not None:
            self._remove(volume, active.client, keep_points=False)

    def _end_other(self, volume, here, other):
        until = time.monotonic() + HEARING_SECONDS
        while True:
            try:
                self._remove(volume, other.briefly, volumes='delete')
                return
            except errors.Refused as error:
                if not errors.is_code(error, 'wrong-state') or \
                        not self._is_unheard(volume, here, other):
                    raise
                if time.monotonic() > until:
                    raise exception.VolumeIsBusy(
                        f'{other} has not heard yet that volume {volume.id} '
                        f'was promoted elsewhere, and deletes nothing before '
                        f'({error}): ask again in a minute') from error
            time.sleep(LOOK_SECONDS)

    def _is_unheard(self, volume, here, other):
        """Is it what a promotion by force has left there, or a moment ago
        was?"""
        if here is None or here['role'] != 'primary':
            return False
        there = self.find(volume, other, briefly=True)
        return there is None or there['epoch'] < here['epoch'] and \
            there['role'] in ('primary', 'deposed')

    @staticmethod
    def _remove(volume, asking, **how):
        try:
            asking.delete(mirror_path(volume), **how)
        except errors.Refused as error:
            if not errors.is_missing(error):
                raise

    # All of them

    def switch(self, volumes, to, finish):
        """Has hosts use the volumes at `to`, in order where the other cluster
        answers: then nothing is lost. Where it does not, at the point that
        `to` has. `finish` is done for each that can be used there.

        Returns what Cinder is to note of each.
        """
        until = time.monotonic() + self.configuration.amita_failover_timeout
        source = Source(self.other(to))
        left = {volume.id: volume for volume in volumes}
        why = {}
        updates = []
        while left:
            for volume in list(left.values()):
                try:
                    self._step(volume, source, to)
                    finish(volume)
                except Waiting as waiting:
                    why[volume.id] = str(waiting)
                    continue
                except (errors.ApiError, exception.CinderException) as error:
                    updates.append(failed(volume, error))
                else:
                    updates.append(done(volume, to))
                del left[volume.id]
            if left and time.monotonic() > until:
                break
            if left:
                time.sleep(LOOK_SECONDS)
        updates.extend(failed(volume, f'not within the time: '
                                      f'{why[volume.id]}')
                       for volume in left.values())
        return updates

    def _step(self, volume, source, to):
        """Looks at both ends, and does what is next. It returns when hosts
        may use the volume there."""
        there = self.find(volume, to)
        if there is None:
            raise exception.ReplicationError(
                volume_id=volume.id, reason=f'{to} has no mirror '
                f'{names.mirror(volume.name_id)}')
        here = source.look(volume, self)
        role = there['role']
        if role == 'primary':
            return self._is_newest(volume, here, there, source, to)
        if role in ('promoting', 'demoting'):
            raise Waiting(f'at {to} it is {role}' + ails(there))
        if here is None:
            return self._without(volume, there, to)
        if role == 'deposed':
            return self._resync(volume, here, there, to)
        if here['role'] == 'primary':
            return self._hand_over(volume, here, there, source, to)
        if here['role'] == 'secondary' and here['handed']:
            # Its last point may be on its way still.
            self._ask(volume, to, 'promote', {})
        raise Waiting(f'at {source.site} it is {here["role"]}, at {to} '
                      f'{role}' + ails(there) + ails(here))

    @staticmethod
    def _is_newest(volume, here, there, source, to):
        """It is the one that hosts use; or was that, and has not heard yet
        that the other one was promoted by force."""
        if here is None and to.backend_id == DEFAULT:
            raise exception.ReplicationError(
                volume_id=volume.id,
                reason=f'{source.site} does not answer, and what was written '
                       f'there since the fail-over is not here: bring it '
                       f'back, or say that it is lost (amita mirror)')
        if here is not None and here['role'] == 'primary' and \
                here['epoch'] > there['epoch']:
            raise Waiting(f'{to} has not heard yet that {source.site} was '
                          f'promoted')

    def _without(self, volume, there, to):
        """Nobody answers for the other end: the point that there is, is what
        is left."""
        if there['role'] == 'deposed':
            raise Waiting('it was deposed, and the other end does not answer')
        self._ask(volume, to, 'promote', {
            'force': True, 'confirm': names.mirror(volume.name_id)})
        raise Waiting(f'{to} is being promoted at its point')

    def _resync(self, volume, here, there, to):
        """It goes back to what both have, and follows; what it had beside
        that stays as a snapshot."""
        if here['role'] != 'primary':
            raise Waiting(f'the other end is {here["role"]}')
        found = to.volumes.find(volume)
        if found is not None:
            to.end_of_service(found.thing)
        self._ask(volume, to, 'resync', {})
        raise Waiting(f'{to} goes back to what both ends have' + ails(there))

    def _hand_over(self, volume, here, there, source, to):
        """Hosts are cut off only when what is missing is little."""
        point = there['point']
        if point is None or int(point.split('-')[0]) < here['epoch']:
            raise Waiting(f'{to} has no point yet of what it is at '
                          f'{source.site}' + ails(there))
        found = source.site.volumes.find(volume)
        if found is not None:
            source.site.end_of_service(found.thing)
        self._ask(volume, source.site, 'demote', {'force': True})
        raise Waiting(f'the last point of {source.site} is being brought')

    @staticmethod
    def _ask(volume, site, what, body):
        """What cannot be yet is asked for again."""
        try:
            site.client.post(mirror_path(volume, what), body)
        except errors.Refused as error:
            if not errors.is_code(error, 'wrong-state', 'in-use', 'raced',
                                  'not-in-time'):
                raise
            raise Waiting(str(error)) from error


class Source:
    """The cluster that the volumes come from, while it answers."""

    def __init__(self, site):
        self.site = site
        self.is_silent = False

    def look(self, volume, replication):
        """Its end of the mirror; none: it does not answer. It is given up
        once, for all volumes."""
        if self.is_silent:
            return None
        try:
            found = replication.find(volume, self.site, briefly=True)
        except errors.NoAnswer as error:
            LOG.warning('%s does not answer: %s', self.site, error)
            self.is_silent = True
            return None
        if found is None:
            raise exception.ReplicationError(
                volume_id=volume.id,
                reason=f'{self.site} has no mirror of it any more: it is '
                       f'promoted and removed by hand (amita mirror)')
        return found


def ails(mirror):
    return f'; it does not go on: {mirror["ails"]}' if mirror['ails'] else ''


def done(volume, to):
    status = fields.ReplicationStatus.ENABLED if to.backend_id == DEFAULT \
        else fields.ReplicationStatus.FAILED_OVER
    updates = {'replication_status': status}
    if volume.status == 'error' and volume.previous_status:
        # A fail-over before this one has failed.
        updates['status'] = volume.previous_status
    return {'volume_id': volume.id, 'updates': updates}


def failed(volume, why):
    LOG.error('volume %s cannot be used there: %s', volume.id, why)
    return {'volume_id': volume.id, 'updates': {
        'status': 'error',
        'replication_status': fields.ReplicationStatus.FAILOVER_ERROR}}
