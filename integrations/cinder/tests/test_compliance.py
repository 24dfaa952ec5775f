"""Cinder's own test of drivers, from its wheel, of this one."""

import re
import subprocess
import sys

from amita_cinder import driver as amita
from cinder.interface import util
from cinder.interface import volume_driver
from cinder.interface import volume_group_driver
from cinder.interface import volume_manageable_driver
from cinder.interface import volume_snapshot_revert
from cinder.interface import volume_snapshotmanagement_driver

# The suite is of all drivers that are known when it is loaded: ours alone, in
# a folder without those of Cinder's.
PROGRAM = '''
import cinder.tests.unit
import amita_cinder.driver
import unittest
from cinder.tests.compliance import test_volume_drivers as suite
print(*(info.class_fqn for info in suite.VOLUME_DRIVERS))
unittest.main(suite, verbosity=2)
'''


def test_cinders_compliance_suite(tmp_path):
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', PROGRAM],
                          cwd=tmp_path, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ['amita_cinder.driver.AmitaDriver']
    assert re.search(r'Ran 2 tests', done.stderr), done.stderr
    assert 'test_volume_driver_compliance_1' in done.stderr


def test_the_driver_is_known_with_its_options():
    (known,) = [info for info in util.get_volume_drivers()
                if info.cls is amita.AmitaDriver]
    assert known.version and known.driver_options and known.supported


def test_the_optional_interfaces_are_there():
    for kind in (volume_driver.VolumeDriverCore,
                 volume_group_driver.VolumeGroupDriver,
                 volume_manageable_driver.VolumeManagementDriver,
                 volume_snapshot_revert.VolumeSnapshotRevertDriver,
                 volume_snapshotmanagement_driver
                 .VolumeSnapshotManagementDriver):
        assert issubclass(amita.AmitaDriver, kind), kind
