"""The client at servers that fail in every way: the next node, the same
request once more, and when not."""

import contextlib
import importlib
import json
import threading

import pytest

from amita_cinder import client as clients
from amita_cinder import errors


# As it is: eventlet, which Cinder imports, has put one with sockets of its own
# into the package `http`.
http_server = importlib.import_module('http.server')


class Server:
    """Answers what a list says, and notes what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        outer = self

        class Handler(http_server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def answer(self):
                length = int(self.headers.get('Content-Length', 0))
                body = self.rfile.read(length)
                outer.asked.append((self.command, self.path,
                                    dict(self.headers), body))
                answer = outer.answers.pop(0) if len(outer.answers) > 1 \
                    else outer.answers[0]
                if answer is None:
                    # Whether it was done nobody knows.
                    self.close_connection = True
                    self.connection.close()
                    return
                status, body = answer
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header('Content-Length', str(len(data)))
                self.send_header('ETag', '"tag"')
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *arguments):
                pass

        self.server = http_server.ThreadingHTTPServer(('127.0.0.1', 0),
                                                      Handler)
        self.thread = threading.Thread(target=self.server.serve_forever,
                                       kwargs={'poll_interval': 0.02})

    @property
    def url(self):
        return f'http://127.0.0.1:{self.server.server_port}'


@contextlib.contextmanager
def at(*lists, patience=5, **more):
    servers = [Server(*answers) for answers in lists]
    for server in servers:
        server.thread.start()
    try:
        yield clients.Client([server.url for server in servers],
                             clients.Credentials(token='secret'),
                             patience=patience, timeout=5, **more), servers
    finally:
        for server in servers:
            server.server.shutdown()
            server.thread.join()
            server.server.server_close()


OK = (200, {'name': 'db'})


def problem(status, code, detail='why'):
    return status, {'code': code, 'detail': detail, 'status': status}


def test_a_token_is_shown_and_an_answer_has_its_tag():
    with at([OK]) as (client, (server,)):
        answer = client.get('/volumes/db', limit=3, now=True, after=None)
        assert (answer.body, answer.tag) == ({'name': 'db'}, '"tag"')
        method, path, headers, _ = server.asked[0]
        assert (method, path) == ('GET',
                                  '/api/v1/volumes/db?limit=3&now=true')
        assert headers['Authorization'] == 'Bearer secret'


@pytest.mark.parametrize('first', [
    problem(503, 'metadata-away'), problem(429, 'too-many'),
    problem(421, 'misdirected'), (502, 'a proxy'), None,
    problem(404, 'not-found', clients.NO_PATH + '; /openapi.json has all')])
def test_the_next_node_is_asked_and_the_same_change_is_made_once(first):
    with at([first], [OK]) as (client, (one, two)):
        assert client.post('/volumes', {'name': 'db'}).body['name'] == 'db'
        keys = {asked[2]['Idempotency-Key'] for asked in one.asked + two.asked}
        assert len(keys) == 1 and len(one.asked) == 1
        assert json.loads(two.asked[0][3]) == {'name': 'db'}
        # The one that has answered is asked first from then on.
        client.get('/volumes/db')
        assert len(one.asked) == 1


@pytest.mark.parametrize('refusal', [
    problem(409, 'exists'), problem(404, 'not-found'), problem(403, 'denied'),
    problem(401, 'unauthenticated'), problem(412, 'changed'),
    problem(503, 'suspect'), problem(500, 'internal'), problem(422, 'x')])
def test_what_is_refused_for_good_is_asked_of_nobody_else(refusal):
    with at([refusal], [OK]) as (client, (_, two)):
        with pytest.raises(errors.Refused) as caught:
            client.delete('/volumes/db', if_match='"tag"')
        assert caught.value.code == refusal[1]['code']
        assert not two.asked


def test_what_is_being_done_is_waited_for_at_the_same_node():
    answers = [problem(409, 'in-progress'), problem(409, 'raced'), OK]
    with at(answers, [OK]) as (client, (one, two)):
        client.post('/volumes', {})
        assert len(one.asked) == 3 and not two.asked


def test_what_is_not_done_in_time_is_not_asked_for_without_end():
    with at([problem(504, 'not-in-time')]) as (client, (one,)):
        with pytest.raises(errors.Refused):
            client.post('/volumes/db/snapshots', {})
        assert len(one.asked) == clients.MAX_NOT_IN_TIME


def test_without_any_node_the_error_names_each_and_comes_in_time():
    client = clients.Client(['http://127.0.0.1:1', 'http://127.0.0.1:2'],
                            clients.Credentials(), patience=0.5)
    with pytest.raises(errors.NoAnswer) as caught:
        client.get('/volumes')
    for part in ('127.0.0.1:1', '127.0.0.1:2', 'amita_api_endpoints'):
        assert part in str(caught.value)


def test_a_list_is_read_to_its_end():
    pieces = [(200, {'items': [1, 2], 'next': 'b'}),
              (200, {'items': [3], 'next': None})]
    with at(pieces) as (client, (server,)):
        assert list(client.list('/volumes', label='a=b')) == [1, 2, 3]
        assert 'after=b' in server.asked[1][1]
        assert 'label=a%3Db' in server.asked[1][1]


def test_names_are_quoted():
    assert clients.quoted('nqn.2014:x/y') == 'nqn.2014%3Ax%2Fy'


def test_a_token_is_read_again_when_its_file_has_changed(tmp_path):
    file = tmp_path / 'token'
    file.write_text('one\n')
    credentials = clients.Credentials(token_file=str(file))
    assert credentials.headers() == {'Authorization': 'Bearer one'}
    file.write_text('another\n')
    import os
    os.utime(file, ns=(1, 1))
    assert credentials.headers() == {'Authorization': 'Bearer another'}


def test_a_token_that_cannot_be_read_is_said(tmp_path):
    client = clients.Client(['http://127.0.0.1:1'], clients.Credentials(
        token_file=str(tmp_path / 'none')), patience=1)
    with pytest.raises(errors.Refused) as caught:
        client.get('/self')
    assert caught.value.code == 'unauthenticated'


def test_a_download_that_is_cut_short_is_told():
    class Short(http_server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header('Content-Length', '100')
            self.end_headers()
            self.wfile.write(b'x' * 10)

        def log_message(self, *arguments):
            pass
    server = http_server.ThreadingHTTPServer(('127.0.0.1', 0), Short)
    thread = threading.Thread(target=server.serve_forever,
                              kwargs={'poll_interval': 0.02})
    thread.start()
    try:
        client = clients.Client([f'http://127.0.0.1:{server.server_port}'],
                                clients.Credentials(), patience=1)
        with pytest.raises(errors.NoAnswer):
            b''.join(client.download('/volumes/db/export', 4096))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_nodes_are_asked_for_as_long_as_the_patience_however_many():
    away = [problem(503, 'metadata-away')] * 100
    with at([*away, OK], patience=60) as (client, (server,)):
        client.endpoints = [server.url] * 40
        assert client.get('/volumes').body == {'name': 'db'}
        assert len(server.asked) == 101


@pytest.mark.parametrize('said', [
    'sEcReT\nit ends on 1 December', 'sEcReT it ends', 'sEcReT\x07',
    'sEcReT\u2013'])
@pytest.mark.parametrize('call', [
    lambda client: client.get('/self'),
    lambda client: b''.join(client.download('/volumes/db/export', 4096))])
def test_what_is_no_token_is_told_to_nobody(tmp_path, said, call):
    file = tmp_path / 'token'
    file.write_text(said)
    with at([OK]) as (client, (server,)):
        client.credentials = clients.Credentials(token_file=str(file))
        with pytest.raises(errors.Refused) as caught:
            call(client)
        assert caught.value.code == 'unauthenticated'
        assert 'sEcReT' not in str(caught.value) and str(file) in \
            str(caught.value)
        assert not server.asked


def test_a_token_that_cannot_be_read_is_said_of_images_too(tmp_path):
    client = clients.Client(['http://127.0.0.1:1'], clients.Credentials(
        token_file=str(tmp_path / 'none')), patience=1)
    with pytest.raises(errors.Refused) as caught:
        b''.join(client.download('/volumes/db/export', 4096))
    assert caught.value.code == 'unauthenticated'
