"""Random sequences of calls, some of them cut at some request, by two
processes in turn, against a model of what Cinder believes: what it believes
to be there is there, with its size and who has it, and nothing else is."""

import os
import random
import time

from oslo_utils import units

import things
from test_cut import Knife, everything

SECONDS = float(os.environ.get('AMITA_CINDER_MODEL_SECONDS', 20))
FIRST = int(os.environ.get('AMITA_CINDER_MODEL_FIRST', 1))
STEPS = 12


class Model:

    def __init__(self, seed, drivers):
        self.random = random.Random(seed)
        self.drivers = drivers
        self.knives = [Knife(driver.client) for driver in drivers]
        self.volumes = []
        self.snapshots = []
        self.hosts = {}
        self.calls = self.cut = 0

    def close(self):
        for knife in self.knives:
            knife.close()

    def do(self, call):
        """Perhaps cut; then given again, perhaps to the other process."""
        self.calls += 1
        if self.random.random() < 0.4:
            number = self.random.randrange(len(self.drivers))
            self.cut += self.knives[number].cut(
                lambda: call(self.drivers[number]),
                self.random.randint(1, 5), self.random.random() < 0.5)
        return call(self.random.choice(self.drivers))

    def step(self):
        choices = [self.create]
        if self.volumes:
            choices += [self.clone, self.snapshot, self.extend, self.attach,
                        self.delete, self.detach]
        if self.snapshots:
            choices += [self.from_snapshot, self.delete_snapshot]
        self.random.choice(choices)()

    def any_volume(self):
        return self.random.choice(self.volumes)

    def pool(self):
        return self.random.choice(['main', 'main', 'main', 'archive'])

    def create(self):
        volume = things.volume(pool=self.pool())
        self.do(lambda driver: driver.create_volume(volume))
        self.volumes.append(volume)

    def clone(self):
        source = self.any_volume()
        volume = things.volume(pool=self.pool(), size=source.size +
                               self.random.randrange(2))
        self.do(lambda driver: driver.create_cloned_volume(volume, source))
        self.volumes.append(volume)

    def snapshot(self):
        taken = things.snapshot(self.any_volume())
        self.do(lambda driver: driver.create_snapshot(taken))
        self.snapshots.append(taken)

    def from_snapshot(self):
        taken = self.random.choice(self.snapshots)
        volume = things.volume(pool=self.pool(), size=taken.volume.size)
        self.do(lambda driver: driver.create_volume_from_snapshot(volume,
                                                                  taken))
        self.volumes.append(volume)

    def delete_snapshot(self):
        taken = self.random.choice(self.snapshots)
        self.do(lambda driver: driver.delete_snapshot(taken))
        self.snapshots.remove(taken)

    def extend(self):
        volume = self.any_volume()
        size = volume.size + 1
        self.do(lambda driver: driver.extend_volume(volume, size))
        volume.size = size

    def attach(self):
        volume = self.any_volume()
        host = things.connector(self.random.randint(1, 3))
        told = self.do(lambda driver: driver.initialize_connection(volume,
                                                                   host))
        known = self.hosts.setdefault(volume.id, {})
        nqn = told['data']['target_nqn']
        assert all(other == nqn for other in known.values())
        known[host['nqn']] = nqn

    def detach(self):
        volume = self.any_volume()
        host = things.connector(self.random.randint(1, 3))
        self.do(lambda driver: driver.terminate_connection(volume, host))
        self.hosts.get(volume.id, {}).pop(host['nqn'], None)

    def delete(self):
        volume = self.any_volume()
        for taken in [one for one in self.snapshots if one.volume is volume]:
            self.do(lambda driver: driver.delete_snapshot(taken))
            self.snapshots.remove(taken)
        # By Cinder's records nobody has it then.
        self.hosts.pop(volume.id, None)
        self.do(lambda driver: driver.delete_volume(volume))
        self.volumes.remove(volume)

    def check(self):
        """All that is there is what is believed."""
        driver = self.drivers[0]
        wanted = set()
        for volume in self.volumes:
            found = things.there(driver, volume)
            assert found['size_bytes'] == volume.size * units.Gi
            assert found['pool'] == volume.host.rpartition('#')[2]
            wanted.add(f'volume {volume.name}')
            hosts = self.hosts.get(volume.id)
            service = driver.client.find(f'/subsystems/cinder-{found["id"]}')
            if hosts:
                assert set(service.body['hosts']) == set(hosts)
                assert service.body['nqn'] in hosts.values()
                wanted.add(f'subsystems cinder-{found["id"]}')
            else:
                assert service is None
        wanted |= {f'snapshot {taken.volume.name}@{taken.name}'
                   for taken in self.snapshots}
        return wanted

    def end(self):
        while self.volumes:
            self.delete()


def test_random_sequences(make_driver):
    drivers = [make_driver(amita_detach_wait=0.0) for _ in range(2)]
    before = everything(drivers[0])
    began, seed, calls, cut = time.monotonic(), FIRST, 0, 0
    while time.monotonic() - began < SECONDS:
        model = Model(seed, drivers)
        try:
            for _ in range(STEPS):
                model.step()
            assert everything(drivers[0]) - before == model.check(), seed
            model.end()
            assert everything(drivers[0]) == before, seed
        except BaseException:
            print(f'AMITA_CINDER_MODEL_FIRST={seed}')
            raise
        finally:
            model.close()
        calls, cut, seed = calls + model.calls, cut + model.cut, seed + 1
    print(f'{seed - FIRST} sequences, {calls} calls, {cut} cut')
    assert cut > 0
