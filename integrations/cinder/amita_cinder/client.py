"""Nodes' REST API, asked as one: the next node where one does not answer.

Every node of a cluster answers every request, for all of them ask the same
metadata. So a request goes to the node that has answered last, and to the
others in turn where that one is away, has no room or no metadata.

A request that changes something may have been carried out though nobody
heard the answer. POST carries an Idempotency-Key: sent again, to whichever
node, it is done once. PUT, PATCH and DELETE are sent again as they are: done
twice they do what they did once, or are refused (404, 412), which callers
take for what it is.
"""

import json
import logging
import os
import random
import re
import threading
import time
import urllib.parse
import uuid

import requests

from amita_cinder import errors
from amita_cinder import tls

LOG = logging.getLogger(__name__)

PREFIX = '/api/v1'
# What may stand in a header as one word (RFC 6750, 2.1).
TOKEN = re.compile(r'[A-Za-z0-9._~+/-]+=*')
# A node takes 64 connections of one address, and 24 requests that wait for
# its metadata.
AT_ONCE = 24
# The first pause between two rounds over the nodes, and the longest one.
PAUSE_SECONDS = 0.2
MAX_PAUSE_SECONDS = 3.0
# The items of one piece of a list, and how many pieces a list may have.
PIECE = 1000
MAX_PIECES = 1000
# What a node answers where it does not know an operation: its release is
# older than that of others.
NO_PATH = 'there is nothing at this path'

# Another node may do what this one does not.
OF_THE_NODE = ('too-many', 'metadata-away', 'misdirected')
# It may be done when it is asked for again a little later.
IN_A_MOMENT = ('in-progress', 'raced', 'not-in-time')
# Given up after so many of these: hosts and owners are slow for a reason.
MAX_NOT_IN_TIME = 3


def is_unknown(error):
    """Is it the operation that is missing, and not the thing?"""
    return error.status == 404 and str(error).startswith(NO_PATH)


class Answer:
    """What a node has said."""

    def __init__(self, body, tag, status):
        self.body = body
        self.tag = tag
        self.status = status


def quoted(name):
    """A name as a part of a path."""
    return urllib.parse.quote(str(name), safe='')


class Credentials:
    """Who asks: a token, a client certificate, or nobody.

    Files are read again when they have changed: tokens and certificates end,
    and are renewed, while cinder-volume runs.
    """

    def __init__(self, token=None, token_file=None, certificate=None,
                 key=None):
        self.token = token
        self.token_file = token_file
        self.certificate = certificate
        self.key = key
        self._read = (None, None)

    def headers(self):
        token = self.token or self._token_of_file()
        if not token:
            return {}
        # What is no header is told with its value by whoever sends it, and
        # would stand in logs.
        if not TOKEN.fullmatch(token):
            raise errors.Refused(0, 'unauthenticated', (
                f'what {self.token_file or "amita_api_token"} has is no '
                f'token: it is the first line of what amita token create '
                f'says, and nothing else'))
        return {'Authorization': f'Bearer {token}'}

    def _token_of_file(self):
        if not self.token_file:
            return None
        changed = os.stat(self.token_file).st_mtime_ns
        if self._read[0] != changed:
            with open(self.token_file, encoding='utf-8',
                      errors='replace') as file:
                self._read = (changed, file.read().strip())
        return self._read[1]

    def pair(self):
        return (self.certificate, self.key) if self.certificate else None

    def version(self):
        """Another one when the files of the certificate are others."""
        return tuple(os.stat(path).st_mtime_ns
                     for path in (self.certificate, self.key) if path)


class Client:
    """Nodes, each by `https://HOST:PORT` (on loopback also `http://`)."""

    def __init__(self, endpoints, credentials, authority=None,
                 cluster_certificates=False, timeout=60.0, patience=90.0,
                 connect_timeout=5.0):
        if not endpoints:
            raise ValueError('no endpoint')
        self.endpoints = [endpoint.rstrip('/') for endpoint in endpoints]
        self.credentials = credentials
        self.authority = authority
        self.cluster_certificates = cluster_certificates
        self.timeout = timeout
        self.connect_timeout = connect_timeout
        self.patience = patience
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._first = 0
        self._lock = threading.Lock()
        self._session = None
        self._session_version = None

    # Requests

    def get(self, path, **params):
        return self.ask('GET', path, params=params)

    def find(self, path, **params):
        """What is there, or none."""
        try:
            return self.ask('GET', path, params=params)
        except errors.Refused as error:
            if errors.is_missing(error):
                return None
            raise

    def post(self, path, body=None, if_match=None):
        return self.ask('POST', path, body={} if body is None else body,
                        if_match=if_match, key=str(uuid.uuid4()))

    def put(self, path, body=None, if_match=None):
        return self.ask('PUT', path, body=body, if_match=if_match)

    def patch(self, path, body, if_match=None):
        return self.ask('PATCH', path, body=body, if_match=if_match)

    def delete(self, path, if_match=None, **params):
        return self.ask('DELETE', path, params=params, if_match=if_match)

    def list(self, path, **params):
        """All items of a list, piece by piece."""
        after = {}
        for _ in range(MAX_PIECES):
            piece = self.get(path, limit=PIECE, **params, **after).body
            yield from piece['items']
            if not piece.get('next'):
                return
            after = {'after': piece['next']}
        raise errors.NoAnswer(f'the list at {path} has no end')

    def ask(self, method, path, params=None, body=None, if_match=None,
            key=None):
        """One request, at whichever node, until it is answered for good."""
        headers = {'Accept': 'application/json'}
        if if_match is not None:
            headers['If-Match'] = if_match
        if key is not None:
            headers['Idempotency-Key'] = key
        data = None
        if body is not None:
            headers['Content-Type'] = 'application/json'
            data = json.dumps(body).encode()
        params = {name: _text(value) for name, value in (params or {}).items()
                  if value is not None}
        with self._places:
            return self._in_turn(method, path, params, headers, data)

    def _in_turn(self, method, path, params, headers, data):
        until = time.monotonic() + self.patience
        nodes = len(self.endpoints)
        number, asked, late = self._first, 0, 0
        pause = PAUSE_SECONDS
        reasons = {}
        # Each round over the nodes ends with a pause, and the patience does.
        while True:
            endpoint = self.endpoints[number]
            try:
                answer = self._send(endpoint, method, path, params, headers,
                                    data)
                self._first = number
                return answer
            except errors.Refused as error:
                last = error
                is_for_another = self._is_for_another(error)
                if not is_for_another and error.code not in IN_A_MOMENT:
                    self._first = number
                    raise
                late += error.code == 'not-in-time'
                if late >= MAX_NOT_IN_TIME:
                    raise
            except errors.NoAnswer as error:
                last, is_for_another = error, True
            reasons[endpoint] = str(last)
            asked += 1
            if is_for_another:
                number = (number + 1) % nodes
                if asked % nodes:
                    continue
            wait = pause * random.uniform(0.7, 1.3)
            if time.monotonic() + wait > until:
                break
            time.sleep(wait)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)
        if isinstance(last, errors.Refused) and not is_unknown(last):
            raise last
        said = '; '.join(f'{endpoint}: {reason}'
                         for endpoint, reason in reasons.items())
        raise errors.NoAnswer(
            f'no node of the cluster answers ({said}); look whether amita '
            f'serve runs there and amita_api_endpoints is right')

    @staticmethod
    def _is_for_another(error):
        return (error.code in OF_THE_NODE
                or error.status in (421, 429, 502, 503)
                and error.code != 'suspect'
                or is_unknown(error))

    def _send(self, endpoint, method, path, params, headers, data):
        url = f'{endpoint}{PREFIX}{path}'
        try:
            headers = {**headers, **self._credentials()}
            response = self._open_session().request(
                method, url, params=params, headers=headers, data=data,
                timeout=(self.connect_timeout, self.timeout),
                allow_redirects=False)
        except requests.RequestException as error:
            raise errors.NoAnswer(_reason(error)) from error
        except OSError as error:
            raise errors.Refused(0, 'unauthenticated', str(error)) from error
        LOG.debug('%s %s%s: %s', method, endpoint, path, response.status_code)
        return read(response, f'{method} {path}')

    def _credentials(self):
        try:
            return self.credentials.headers()
        except OSError as error:
            # A file of the credentials: no node can mend that.
            raise errors.Refused(0, 'unauthenticated', str(error)) from error

    # Bodies that are no JSON

    def download(self, path, chunk_bytes, **params):
        """Opens what is long at one node; yields its bytes.

        Where fewer come than were announced it was cut short: NoAnswer.
        """
        params = {name: _text(value) for name, value in params.items()
                  if value is not None}
        response = self._stream('GET', path, params=params)
        with response:
            wanted = int(response.headers.get('Content-Length', -1))
            came = 0
            try:
                for chunk in response.iter_content(chunk_bytes):
                    came += len(chunk)
                    yield chunk
            except requests.RequestException as error:
                raise errors.NoAnswer(_reason(error)) from error
            if came != wanted:
                raise errors.NoAnswer(
                    f'{path} was cut short after {came} of {wanted} bytes')

    def upload(self, path, open_file, size_bytes, if_match, **params):
        """Sends a file; `open_file` opens it anew for each try."""
        params = {name: _text(value) for name, value in params.items()}

        def body():
            file = open_file()
            return _Sized(file, size_bytes) if size_bytes else b''
        headers = {'If-Match': if_match,
                   'Content-Type': 'application/octet-stream'}
        response = self._stream('PUT', path, params=params, headers=headers,
                                body=body)
        with response:
            return read(response, f'PUT {path}')

    def _stream(self, method, path, params, headers=None, body=None):
        """The first node that takes it; images wait for nobody's turn."""
        until = time.monotonic() + self.patience
        pause = 1.0
        while True:
            reasons = []
            for tried in range(len(self.endpoints)):
                number = (self._first + tried) % len(self.endpoints)
                endpoint = self.endpoints[number]
                sent = {**(headers or {}), **self._credentials()}
                data = body() if body else None
                try:
                    response = self._open_session().request(
                        method, f'{endpoint}{PREFIX}{path}', params=params,
                        headers=sent, data=data, stream=True,
                        timeout=(self.connect_timeout, 150),
                        allow_redirects=False)
                except (requests.RequestException, OSError) as error:
                    reasons.append(f'{endpoint}: {_reason(error)}')
                    continue
                finally:
                    if hasattr(data, 'close'):
                        data.close()
                if response.status_code < 400:
                    self._first = number
                    return response
                try:
                    read(response, f'{method} {path}')
                except errors.Refused as error:
                    reasons.append(f'{endpoint}: {error}')
                    if not self._is_for_another(error) and \
                            error.code not in IN_A_MOMENT:
                        raise
                finally:
                    response.close()
            if time.monotonic() + pause > until:
                raise errors.NoAnswer('no node of the cluster does it: '
                                      + '; '.join(reasons))
            time.sleep(pause)

    # Sessions

    def _open_session(self):
        """The connections that are kept, made anew with new certificates."""
        version = self.credentials.version()
        with self._lock:
            if self._session is None or version != self._session_version:
                self._session = self._new_session()
                self._session_version = version
            return self._session

    def _new_session(self):
        session = requests.Session()
        # Neither a proxy nor a .netrc of the environment: nodes are near.
        session.trust_env = False
        session.cert = self.credentials.pair()
        session.verify = self.authority or True
        adapter = tls.adapter(self.cluster_certificates, AT_ONCE)
        session.mount('https://', adapter)
        session.mount('http://', requests.adapters.HTTPAdapter(
            pool_maxsize=AT_ONCE))
        return session


class _Sized:
    """A file of which so many bytes are sent, with Content-Length."""

    def __init__(self, file, size_bytes):
        self.file = file
        self.len = size_bytes

    def __len__(self):
        return self.len

    def read(self, size=-1):
        return self.file.read(size)

    def close(self):
        self.file.close()


def read(response, request):
    """An answer, or the problem that it is."""
    try:
        body = response.json() if response.content else None
    except ValueError:
        body = None
    tag = response.headers.get('ETag')
    if response.status_code < 300:
        return Answer(body, tag, response.status_code)
    problem = body if isinstance(body, dict) else {}
    raise errors.Refused(response.status_code, problem.get('code', ''),
                         problem.get('detail', ''), tag, request)


def _text(value):
    if isinstance(value, bool):
        return 'true' if value else 'false'
    return value


def _reason(error):
    """The innermost reason, without addresses of objects."""
    inner = error
    while inner.args and isinstance(inner.args[0], Exception):
        inner = inner.args[0]
    reason = getattr(inner, 'reason', None)
    text = str(reason if reason is not None else inner)
    return text.rpartition('>: ')[2] or type(error).__name__
