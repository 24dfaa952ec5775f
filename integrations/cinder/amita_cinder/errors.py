"""What the API refuses, and how Cinder is told of it.

The client raises the exceptions of this file; the driver hands exceptions of
Cinder's to its manager. Programs go by the code of a problem (RFC 9457), which
stays; what is for people goes into the text.
"""

import functools

from cinder import exception


class ApiError(Exception):
    """A request was not carried out, or nobody knows whether it was."""

    code = ''
    status = 0


class NoAnswer(ApiError):
    """No node has answered in time. Of a change it may be that it was made."""


class Refused(ApiError):
    """A node has said why it was not done."""

    def __init__(self, status, code, detail, tag=None, request=''):
        super().__init__(detail or f'a node answers {status}')
        self.status = status
        self.code = code
        self.tag = tag
        self.request = request


def is_code(error, *codes):
    """Was it refused with one of these codes?"""
    return isinstance(error, Refused) and error.code in codes


def is_missing(error):
    return is_code(error, 'not-found')


# What a person can do about it, beside what the node says in its sentence.
ADVICE = {
    'unauthenticated': 'check amita_api_token_file or amita_api_certificate: '
                       'the token may have ended (amita token list)',
    'denied': 'the token needs the role operator, or admin where volumes are '
              'replicated (amita token create NAME --role operator)',
    'no-room': 'raise the quota of the pool, or delete what is not needed',
    'cannot-place': 'look at amita status: the stores of the pool cannot hold '
                    'it',
    'suspect': 'look at amita status before anything else is tried',
    'internal': 'it is in the log of the node',
    'needs-if-match': 'a fault of the driver: report it',
}


def sentence(what, error):
    """What was to be done, what came of it, and what to do about that."""
    text = f'{what}: {error}'
    advice = ADVICE.get(error.code)
    return f'{text} ({advice})' if advice else text


def backend(what, error):
    """The exception of Cinder's for what has no better one."""
    return exception.VolumeBackendAPIException(data=sentence(what, error))


def translated(what):
    """A method of the driver: what the API refuses becomes Cinder's own.

    `what` is what the method does, with the names of its arguments' things
    put in by the method itself where it knows better.
    """
    def decorator(method):
        @functools.wraps(method)
        def wrapper(*args, **kwargs):
            try:
                return method(*args, **kwargs)
            except ApiError as error:
                raise backend(what, error) from error
        return wrapper
    return decorator
