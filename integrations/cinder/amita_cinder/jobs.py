"""What takes long goes on by itself, and is looked at until it is over.

A job is there for as long as it lasts. When it is gone, what it was for tells
whether it was done or taken back.
"""

import logging
import time

from amita_cinder import errors
from amita_cinder.client import quoted

LOG = logging.getLogger(__name__)

# Looks follow each other after this, at first and in the end.
FIRST_SECONDS = 0.2
LAST_SECONDS = 5.0


def find(client, kind, name):
    """The job of that kind for a volume of that name; none: there is none."""
    for job in client.list('/jobs', kind=kind):
        if job['object'] == name:
            return job
    return None


def wait(client, job, seconds):
    """Waits until a job is over. One that takes longer is taken back, and so
    is one that somebody has paused for all of that time."""
    until = time.monotonic() + seconds
    pause = FIRST_SECONDS
    ails = None
    while True:
        answer = client.find(f'/jobs/{quoted(job["id"])}')
        if answer is None:
            return
        job = answer.body
        if job.get('ails') != ails:
            ails = job.get('ails')
            if ails:
                LOG.warning('%s of volume %s does not go on: %s',
                            job['kind'], job['object'], ails)
        if time.monotonic() + pause > until:
            break
        time.sleep(pause)
        pause = min(pause * 1.5, LAST_SECONDS)
    cancel(client, job)
    raise errors.NoAnswer(
        f'{job["kind"]} of volume {job["object"]} was not over after '
        f'{seconds:.0f} s, and is taken back'
        + (f'; it did not go on: {ails}' if ails else ''))


def cancel(client, job):
    """Takes a job back; one that is over, or past that, goes on."""
    try:
        client.post(f'/jobs/{quoted(job["id"])}/cancel')
    except errors.Refused as error:
        if not errors.is_code(error, 'not-found', 'wrong-state', 'in-use'):
            raise
        LOG.info('%s of volume %s is not taken back: %s', job['kind'],
                 job['object'], error)
