"""Images by the API of a node, where the host of cinder-volume cannot attach
volumes (`amita_images_by_api`).

An image is made raw in a file first, and sent to a node, which writes it: and
the other way round. What is used meanwhile is copied as a snapshot has it.
"""

import os

from oslo_utils import units

from cinder import exception
from cinder.image import image_utils
from cinder.volume import volume_utils

from amita_cinder import errors
from amita_cinder import names
from amita_cinder.names import volume_path

CHUNK_BYTES = units.Mi


class _Aligned:
    """A raw image whose end is filled up to whole blocks with zeros."""

    def __init__(self, path, size_bytes):
        self.file = open(path, 'rb')
        self.left = size_bytes

    def read(self, size=-1):
        size = self.left if size is None or size < 0 else min(size, self.left)
        if not size:
            return b''
        got = self.file.read(size) or bytes(size)
        self.left -= len(got)
        return got

    def close(self):
        self.file.close()


def into_volume(client, context, found, volume, image_service, image_id,
                configuration, disable_sparse):
    """Writes an image over a volume; behind it are zeros."""
    with image_utils.temporary_dir() as folder:
        path = os.path.join(folder, f'{volume.id}.raw')
        # What qemu-img writes to is there already, as a device would be.
        open(path, 'wb').close()
        image_utils.fetch_to_raw(
            context, image_service, image_id, path,
            configuration.volume_dd_blocksize, size=volume.size,
            run_as_root=False, disable_sparse=disable_sparse)
        size = os.path.getsize(path)
        if size > found.thing['size_bytes']:
            raise exception.ImageTooBig(
                image_id=image_id,
                reason=f'it has {size} bytes, and volume {volume.id} has '
                       f'{found.thing["size_bytes"]}')
        size = -(-size // 4096) * 4096
        try:
            client.upload(volume_path(found.thing['name'], 'data'),
                          lambda: _Aligned(path, size), size, found.tag,
                          as_it_is=True)
        except errors.ApiError as error:
            raise exception.ImageCopyFailure(
                reason=errors.sentence(f'image {image_id} into volume '
                                       f'{volume.id}', error)) from error


def out_of_volume(client, context, volumes, volume, image_service,
                  image_meta):
    """Uploads a volume as an image."""
    found = volumes.get(volume)
    name = found.thing['name']
    snapshot = f'cinder-image-{image_meta["id"]}'
    volumes.take_snapshot(found.thing, snapshot,
                          {names.TEMPORARY: volume.name_id})
    try:
        with image_utils.temporary_dir() as folder:
            path = os.path.join(folder, f'{volume.id}.raw')
            with open(path, 'wb') as file:
                for chunk in client.download(volume_path(name, 'export'),
                                             CHUNK_BYTES, snapshot=snapshot):
                    if chunk.count(0) == len(chunk):
                        file.seek(len(chunk), os.SEEK_CUR)
                    else:
                        file.write(chunk)
                file.truncate()
            volume_utils.upload_volume(context, image_service, image_meta,
                                       path, volume, run_as_root=False)
    finally:
        volumes.end_of_temporary(name, snapshot)
