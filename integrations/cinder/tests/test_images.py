"""Images by the API of a node, at real nodes, with qemu-img as Cinder runs it.
Glance is a folder here: what the driver does with it are three calls."""

import datetime
import hashlib
import os
import pathlib
import subprocess
import uuid

import pytest
from oslo_config import cfg
from oslo_utils import units

from cinder import exception
from cinder import privsep

from amita_cinder import names
import things
from things import snapshots


class Images:
    """What Cinder asks of Glance for that."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.kinds = {}
        self.temp_images = None

    def add(self, path, kind):
        made = str(uuid.uuid4())
        os.rename(path, self.folder / made)
        self.kinds[made] = kind
        return made

    def show(self, context, image_id):
        return {'id': image_id, 'disk_format': self.kinds[image_id],
                'container_format': 'bare', 'min_disk': 0,
                'size': (self.folder / image_id).stat().st_size,
                'properties': {}, 'status': 'active', 'name': 'image',
                'created_at': datetime.datetime(2026, 1, 1)}

    def get_location(self, context, image_id):
        return None, None

    def get_stores(self, context):
        return {'stores': []}

    def download(self, context, image_id, data=None):
        with open(self.folder / image_id, 'rb') as file:
            while chunk := file.read(1 << 20):
                data.write(chunk)

    def update(self, context, image_id, meta, data=None, **more):
        with open(self.folder / image_id, 'wb') as file:
            while chunk := data.read(1 << 20):
                file.write(chunk)
        self.kinds[image_id] = 'raw'


@pytest.fixture
def images(tmp_path):
    cfg.CONF.set_override('image_conversion_dir', str(tmp_path / 'convert'))
    # qemu-img is started by this process itself.
    privsep.sys_admin_pctxt.set_client_mode(False)
    (tmp_path / 'images').mkdir()
    yield Images(tmp_path / 'images')
    cfg.CONF.clear_override('image_conversion_dir')


@pytest.fixture
def by_api(make_driver):
    return make_driver(amita_images_by_api=True)


def raw(path, size=8 * units.Mi):
    """Data, a hole, data."""
    with open(path, 'wb') as file:
        file.write(os.urandom(2 * units.Mi))
        file.seek(size - units.Mi)
        file.write(os.urandom(units.Mi))
    return path


def content(driver, volume, size):
    data = b''.join(driver.client.download(
        names.volume_path(volume.name, 'export'), 1 << 20))
    assert not data[size:].strip(b'\0')
    return hashlib.sha256(data[:size]).hexdigest()


@pytest.mark.parametrize('kind', ['raw', 'qcow2'])
def test_an_image_goes_into_a_volume_and_out_again(by_api, made, images,
                                                   tmp_path, kind):
    source = raw(tmp_path / 'source')
    size = source.stat().st_size
    wanted = hashlib.sha256(source.read_bytes()).hexdigest()
    path = tmp_path / 'image'
    subprocess.run(['qemu-img', 'convert', '-O', kind, source, path],
                   check=True)
    image = images.add(path, kind)
    volume = made()
    by_api.copy_image_to_volume(things.CONTEXT, volume, images, image)
    assert content(by_api, volume, size) == wanted
    volume.volume_type = things.volume_type()
    volume.glance_metadata = {}
    new = str(uuid.uuid4())
    by_api.copy_volume_to_image(things.CONTEXT, volume, images, {
        'id': new, 'disk_format': 'raw', 'container_format': 'bare'})
    data = (images.folder / new).read_bytes()
    assert len(data) == units.Gi
    assert hashlib.sha256(data[:size]).hexdigest() == wanted
    assert snapshots(by_api, volume) == []


def test_what_is_attached_is_copied_as_it_is(by_api, made, images):
    volume = made()
    volume.volume_type = things.volume_type()
    volume.glance_metadata = {}
    by_api.initialize_connection(volume, things.connector())
    new = str(uuid.uuid4())
    by_api.copy_volume_to_image(things.CONTEXT, volume, images, {
        'id': new, 'disk_format': 'raw', 'container_format': 'bare'})
    assert (images.folder / new).stat().st_size == units.Gi
    by_api.terminate_connection(volume, things.connector())


def test_an_image_that_is_too_large_is_said(by_api, made, images, tmp_path):
    path = tmp_path / 'large'
    with open(path, 'wb') as file:
        file.truncate(2 * units.Gi)
    image = images.add(path, 'raw')
    with pytest.raises((exception.ImageTooBig, exception.ImageUnacceptable)):
        by_api.copy_image_to_volume(things.CONTEXT, made(), images, image)
