"""What things of Cinder's are called at Amita, and by which labels they are
known again."""

import re

# Labels of a volume. Amita takes 32 of them, key and value of 256 bytes each.
VOLUME = 'cinder.amita.io/volume'
PROJECT = 'cinder.amita.io/project'
# What it began as: it tells what a call that was cut off has left from what
# is somebody else's.
SOURCE = 'cinder.amita.io/source'
# How many bytes it is to have: a clone that was cut off has fewer.
SIZE = 'cinder.amita.io/size'
# The logical block that hosts see.
BLOCK = 'cinder.amita.io/block-bytes'
# What a volume was called before Cinder managed it.
WAS = 'cinder.amita.io/was'
OWN = (VOLUME, PROJECT, SOURCE, SIZE, BLOCK, WAS)

# Labels of a snapshot, which never change.
SNAPSHOT = 'cinder.amita.io/snapshot'
GROUP_SNAPSHOT = 'cinder.amita.io/group-snapshot'
# It is taken for a clone, whose volume this is, and goes with its making.
TEMPORARY = 'cinder.amita.io/temporary'

# Amita's own backups take such ones, and leave one where their node dies.
BACKUP = 'amita-backup'
# Points of a mirror of that number, which go with it.
MIRROR = 'amita:mirror'

# A volume that is moved to another pool is made there under such a name.
BEING_MOVED = '~'


def label(value):
    """A text as the value of a label."""
    text = re.sub(r'[\x00-\x1f\x7f]', ' ', str(value or ''))
    return text.encode()[:255].decode(errors='ignore')


def volume_path(name, *more):
    from amita_cinder.client import quoted
    return '/'.join(['/volumes', quoted(name), *map(quoted, more)])


def snapshot_path(volume, snapshot, *more):
    return volume_path(volume, 'snapshots', snapshot, *more)


def mirror(volume_id):
    """The mirror of a volume that is replicated."""
    return f'cinder-{volume_id}'


def clone_snapshot(volume_id):
    """The snapshot that is taken of a volume that is to be cloned."""
    return f'cinder-clone-{volume_id}'


def group_snapshot(group_snapshot_id):
    """What each snapshot of a set is called."""
    return f'group-snapshot-{group_snapshot_id}'


def service(volume, snapshot=None):
    """The subsystem or target of one volume, or of one of its snapshots.

    By the number of the volume, which stays when it is renamed, moved to
    another pool or reverted.
    """
    name = f'cinder-{volume["id"]}'
    return name if snapshot is None else f'{name}-{snapshot["number"]}'


def backup_task(backup_id):
    """The task by which a backup is made."""
    return f'cinder-backup-{backup_id}'


def forget_task(backup_id):
    """The task by which a backup is given up."""
    return f'cinder-forget-{backup_id}'


def restore_task(volume_id):
    """The task by which a backup is restored for a volume."""
    return f'cinder-restore-{volume_id}'


def restored(volume_id):
    """The volume that a backup is restored into, before it is copied."""
    return f'cinder-restored-{volume_id}'
