"""What tests share: a cluster of real nodes, and a driver at it."""

import os
import pathlib
import shutil
import sys
import tempfile
import uuid

# Cinder by native threads: nothing is patched here.
os.environ.setdefault('OS_CINDER_DISABLE_EVENTLET_PATCHING', 'true')
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from cinder import monkey_patch  # noqa: E402
import pytest  # noqa: E402

monkey_patch.patch()

# With a guest, by `scripts/test-cinder --guest`: it takes minutes, and nodes
# have other addresses then, so nothing else is run.
if 'AMITA_TEST_GUEST' in os.environ:
    collect_ignore_glob = ['test_*.py']
else:
    collect_ignore = ['guest']


@pytest.fixture(scope='session')
def cluster():
    """Three nodes, for all tests of a run."""
    import cluster as clusters
    folder = tempfile.mkdtemp(prefix='amita-cinder-')
    made = None
    try:
        made = clusters.Cluster(
            folder, is_for_guests='AMITA_TEST_GUEST' in os.environ)
        yield made
    finally:
        if made is not None:
            made.stop()
        if not os.environ.get('AMITA_CINDER_KEEP'):
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def settings(cluster):
    """The backend section for it."""
    return {'amita_api_endpoints': cluster.endpoints(),
            'amita_api_token_file': str(cluster.file('token')),
            'amita_api_ca': str(cluster.operator / 'ca.pem'),
            'amita_api_cluster_certificates': True,
            'amita_attach_wait': 0.0, 'amita_detach_wait': 0.2,
            'amita_delete': 'now', 'volume_backend_name': 'amita',
            'amita_migration_timeout': 300}


@pytest.fixture
def make_driver(settings):
    """Drivers at the cluster, each as a process of cinder-volume has it."""
    import things
    number = 0

    def make(**other):
        nonlocal number
        number += 1
        return things.driver({**settings, **other},
                             f'section_{uuid.uuid4().hex[:8]}')
    return make


@pytest.fixture
def driver(make_driver):
    return make_driver()


@pytest.fixture
def made(driver):
    """Volumes that are gone after the test."""
    import things
    kept = []

    def make(**more):
        volume = things.volume(**more)
        kept.append(volume)
        driver.create_volume(volume)
        return volume
    make.kept = kept
    yield make
    for volume in reversed(kept):
        things.attached(volume)
        if things.there(driver, volume):
            for name in things.snapshots(driver, volume):
                driver.volumes.drop_snapshot(volume.name, name)
        driver.delete_volume(volume)


@pytest.fixture(scope='session', autouse=True)
def database():
    """Cinder's own, with nothing in it: what it knows is asked of it. And the
    locks of its processes."""
    from cinder import coordination
    from cinder.db import migration
    from oslo_config import cfg
    folder = tempfile.mkdtemp(prefix='amita-cinder-')
    cfg.CONF.set_override('connection', f'sqlite:///{folder}/cinder.sqlite',
                          group='database')
    migration.db_sync()
    cfg.CONF.set_override('state_path', folder)
    coordination.COORDINATOR.start()
    yield
    coordination.COORDINATOR.stop()
    shutil.rmtree(folder, ignore_errors=True)
