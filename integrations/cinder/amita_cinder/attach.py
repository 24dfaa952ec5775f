"""Which hosts have a volume: by NVMe/TCP or by iSCSI.

A volume that a host has is a namespace of a subsystem of its own (by iSCSI: a
LUN of a target of its own), whose list of hosts says who has it, and nothing
else does. No host is asked: one that is dead is taken off the list as any
other, and gateways cut it off.

What a lost host could not send its kernel keeps, and sends when it is let in
again. So no qualified name is used twice: it is made when the first host is
let in, and gone with the last one. Decision 086 has the whole story, which is
the same for Kubernetes.
"""

import hashlib
import hmac
import logging
import time
import uuid

from cinder import exception

from amita_cinder import errors
from amita_cinder import names
from amita_cinder.client import quoted
from amita_cinder.names import volume_path

LOG = logging.getLogger(__name__)

# How often a list that others change is looked at anew.
LOOKS = 8
# Another process has ended what this one was at, or was faster.
OF_ANOTHER = ('not-found', 'exists', 'changed')


class _Service:
    """A subsystem or a target: what both have in common."""

    # Where these are, and their hosts; what a host is called in a connector.
    PATH = MEMBERS = HOST = None
    # The property of a record that says how many disks it has, what their
    # number is called, and that of the only one.
    DISKS = DISK = NUMBER = None

    def __init__(self, client, configuration):
        self.client = client
        self.configuration = configuration

    def path(self, name, *more):
        return '/'.join([self.PATH, quoted(name), *map(quoted, more)])

    def host(self, connector):
        host = (connector or {}).get(self.HOST)
        if not host:
            raise exception.InvalidConnectorException(missing=self.HOST)
        return host.strip()

    def attach(self, thing, connector, snapshot=None):
        """Lets a host in; what it has to know to connect."""
        host = self.host(connector)
        name = names.service(thing, snapshot)
        of = thing['name']
        if snapshot is not None:
            of = f'{of}@{snapshot["name"]}'
        last = None
        for _ in range(LOOKS):
            try:
                told, is_new = self._let_in(name, of, thing, host)
            except errors.Refused as error:
                told, last = None, error
                if error.code == 'in-use':
                    self._is_ours(name, of, error)
                elif not errors.is_code(error, *OF_ANOTHER):
                    raise
                self._is_there_still(thing, snapshot, error)
            if told is not None:
                try:
                    return self.properties(told, connector)
                except exception.CinderException:
                    # Nobody would ever take it off: Cinder knows of no
                    # attachment that failed.
                    if is_new:
                        self.detach(thing, host, snapshot)
                    raise
            time.sleep(0.3)
        raise last or errors.NoAnswer(
            f'who has volume {of} changes again and again; attach it again')

    def _is_ours(self, name, of, error):
        """The volume is served already: by this service, as another process
        was faster; or an operator has given it to somebody."""
        told = self.client.find(self.attachment_path(of))
        if told is not None and told.body[self.NAME] == name:
            return
        self._end_if_unused(name)
        raise error

    def _end_if_unused(self, name):
        """One that lets nobody in is of no use, and a cluster has a bound of
        them. Of two hosts that go at one time neither is the last one."""
        unused = self.client.find(self.path(name))
        if unused is not None and not self.hosts(unused.body):
            try:
                self.client.delete(self.path(name), if_match=unused.tag,
                                   force=True)
            except errors.Refused as why:
                LOG.info('%s stays: %s', self.path(name), why)

    def _is_there_still(self, thing, snapshot, error):
        path = volume_path(thing['name']) if snapshot is None else \
            names.snapshot_path(thing['name'], snapshot['name'])
        if self.client.find(path) is None:
            raise error

    def _let_in(self, name, of, thing, host):
        """What is told of it, or none: it is to be looked at anew; and was
        the host let in by this call?"""
        service = self._served(name, of, thing)
        is_new = host not in self.hosts(service)
        if is_new:
            service = self.allow(name, host)
        told = self.client.get(self.attachment_path(of)).body
        if (told[self.NAME] != name or told[self.QUALIFIED] !=
                service[self.QUALIFIED]):
            return None, False
        if is_new:
            time.sleep(self.configuration.amita_attach_wait)
        # It may have been ended since, and made anew for another host.
        now = self.client.find(self.path(name))
        if (now is None or now.body[self.QUALIFIED] != told[self.QUALIFIED]
                or host not in self.hosts(now.body)):
            return None, False
        return told, is_new

    def _served(self, name, of, thing):
        """The service of a volume, with the volume in it."""
        answer = self.client.find(self.path(name))
        if answer is not None and not self.hosts(answer.body):
            # Made by a call that was cut off or is at it; or all were taken
            # off it, and its name was used. Whoever is at it is let go on.
            time.sleep(self.configuration.amita_detach_wait)
            self.client.delete(self.path(name), if_match=answer.tag,
                               force=True)
            answer = None
        if answer is None:
            answer = self.client.post(self.PATH, self.wanted(name))
        service = answer.body
        if not service[self.DISKS]:
            block = int(thing['labels'].get(
                names.BLOCK, self.configuration.amita_block_bytes))
            self.client.post(self.path(name, self.DISKS), {
                'volume': of, self.DISK: self.NUMBER, 'block_bytes': block})
        return service

    def detach(self, thing, host, snapshot=None):
        """Takes a host off the list, or all (None). Whoever is cut off has
        no connection when this returns, at gateways that reach the metadata.
        """
        name = names.service(thing, snapshot)
        for _ in range(LOOKS):
            answer = self.client.find(self.path(name))
            if answer is None:
                break
            known = self.hosts(answer.body)
            stay = [other for other in known if host and other != host]
            if stay and host not in known:
                break
            try:
                if stay:
                    self.client.delete(self.path(name, self.MEMBERS, host))
                    self._end_if_unused(name)
                else:
                    self.client.delete(self.path(name), if_match=answer.tag,
                                       force=True)
                break
            except errors.Refused as error:
                # Somebody else was let in, or has gone.
                if not errors.is_code(error, 'changed', 'not-found'):
                    raise
        else:
            raise errors.NoAnswer(f'who has volume {thing["name"]} changes '
                                  f'again and again; detach it again')
        time.sleep(self.configuration.amita_detach_wait)

    def end(self, thing, snapshot=None):
        """Takes it from all hosts, if any has it; waits only then."""
        name = names.service(thing, snapshot)
        answer = self.client.find(self.path(name))
        if answer is not None:
            if self.hosts(answer.body):
                LOG.warning('volume %s is taken from %s, who are no '
                            'attachments of Cinder', thing['name'],
                            ', '.join(self.hosts(answer.body)))
            self.detach(thing, None, snapshot)

    def _portals(self, gateways):
        """Those that live, the owner first; all where none is known to."""
        alive = [gateway for gateway in gateways if gateway['alive']]
        chosen = alive or gateways
        most = self.configuration.amita_portals
        return chosen[:most] if most else chosen


class Nvme(_Service):
    PATH, MEMBERS, HOST = '/subsystems', 'hosts', 'nqn'
    DISKS, DISK, NUMBER = 'namespaces', 'nsid', 1
    NAME, QUALIFIED = 'subsystem', 'nqn'

    @staticmethod
    def hosts(service):
        return service['hosts']

    @staticmethod
    def attachment_path(of):
        return volume_path(of, 'attachment')

    def wanted(self, name):
        nqn = f'nqn.2026-11.io.amita:{uuid.uuid4().hex}:{name}'
        return {'name': name, 'nqn': nqn,
                'gateways': self.configuration.amita_gateways}

    def allow(self, name, host):
        if self.client.find(f'/hosts/{quoted(host)}') is None:
            try:
                self.client.post('/hosts', {'nqn': host})
            except errors.Refused as error:
                if error.code != 'exists':
                    raise
        return self.client.put(self.path(name, 'hosts', host)).body

    def properties(self, told, connector):
        """As os-brick's connector for NVMe-oF takes them, of a target with
        several portals."""
        portals = [(gateway['traddr'], str(gateway['trsvcid']), 'tcp')
                   for gateway in self._portals(told['gateways'])]
        if not portals:
            raise exception.VolumeBackendAPIException(
                data='no node serves NVMe/TCP: start nodes with amita serve '
                     '--nvme ADDRESS:PORT')
        return {'driver_volume_type': 'nvmeof',
                'data': {'target_nqn': told['nqn'],
                         'vol_uuid': told['uuid'],
                         'portals': portals,
                         'host_nqn': self.host(connector)}}


class Iscsi(_Service):
    PATH, MEMBERS, HOST = '/targets', 'initiators', 'initiator'
    # os-brick has Linux look for this LUN alone. Until Linux has seen that a
    # target is newer than SCSI-2, it has the number in the command as well,
    # which older gateways refuse; of 0 there is nothing to be seen.
    DISKS, DISK, NUMBER = 'luns', 'lun', 0
    NAME, QUALIFIED = 'target', 'iqn'

    @staticmethod
    def hosts(service):
        return [access['initiator'] for access in service['initiators']]

    @staticmethod
    def attachment_path(of):
        return volume_path(of, 'iscsi-attachment')

    @property
    def _has_chap(self):
        return bool(self.configuration.use_chap_auth)

    def wanted(self, name):
        iqn = f'iqn.2026-11.io.amita:{uuid.uuid4().hex}:{name}'
        return {'name': name, 'iqn': iqn, 'chap_required': self._has_chap,
                'gateways': self.configuration.amita_gateways}

    def host(self, connector):
        # Capitals stand for small letters (RFC 3722), and are told so.
        return super().host(connector).lower()

    def allow(self, name, host):
        if self._has_chap:
            self._set_secret(host)
        return self.client.put(self.path(name, 'initiators', host),
                               {'luns': None}).body

    def chap(self, host):
        """The name and the secret of an initiator: the same in every process
        that knows the key, and of another initiator nobody's."""
        key = self.configuration.amita_chap_key.encode()
        user = 'amita-' + hashlib.sha256(key).hexdigest()[:8]
        secret = hmac.new(key, host.encode(), hashlib.sha256).hexdigest()[:32]
        return user, secret

    def _set_secret(self, host):
        """Only where it has none, or one of another key: the sessions that it
        has would end."""
        path = f'/initiators/{quoted(host)}'
        known = self.client.find(path)
        if known is None:
            try:
                known = self.client.post('/initiators', {'name': host})
            except errors.Refused as error:
                if error.code != 'exists':
                    raise
                known = self.client.get(path)
        user, secret = self.chap(host)
        if not known.body['chap'] or known.body['chap_user'] != user:
            self.client.patch(f'{path}/keys', {'chap': secret,
                                               'chap_user': user})

    def properties(self, told, connector):
        portals = [f'[{portal["address"]}]:{portal["port"]}'
                   if ':' in portal['address']
                   else f'{portal["address"]}:{portal["port"]}'
                   for portal in self._portals(told['portals'])]
        if not portals:
            raise exception.VolumeBackendAPIException(
                data='no node speaks iSCSI: start nodes with amita serve '
                     '--iscsi ADDRESS:PORT')
        data = {'target_discovered': False, 'target_iqn': told['iqn'],
                'target_portal': portals[0], 'target_lun': told['lun']}
        if connector.get('multipath'):
            data.update(target_iqns=[told['iqn']] * len(portals),
                        target_portals=portals,
                        target_luns=[told['lun']] * len(portals))
        if self._has_chap:
            user, secret = self.chap(self.host(connector))
            data.update(auth_method='CHAP', auth_username=user,
                        auth_password=secret)
        return {'driver_volume_type': 'iscsi', 'data': data}
