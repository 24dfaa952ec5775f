"""What needs no node: settings, QoS, capacity, errors."""

import pytest

from cinder import exception
from cinder.volume import driver as base

from amita_cinder import driver as amita
from amita_cinder import errors
from amita_cinder import names
from amita_cinder import options
from amita_cinder import qos
from amita_cinder import stats
from amita_cinder import tls
import things


@pytest.mark.parametrize('text, wanted', [
    ('n1:7710', 'https://n1:7710'),
    (' https://n1.example:7710/ ', 'https://n1.example:7710'),
    ('http://127.0.0.1:7710', 'http://127.0.0.1:7710'),
    ('http://[::1]:7710', 'http://[::1]:7710'),
    ('[fd00::1]:7710', 'https://[fd00::1]:7710'),
])
def test_endpoints_that_can_be(text, wanted):
    assert options.endpoint(text) == wanted


@pytest.mark.parametrize('text', [
    '', 'n1', 'ftp://n1:1', 'http://n1:7710', 'https://n1:7710/api/v1',
    'https://user:secret@n1:7710', 'https://n1:port', 'https://n1:7710?a=b'])
def test_endpoints_that_cannot_be(text):
    with pytest.raises(exception.InvalidConfigurationValue):
        options.endpoint(text)


@pytest.mark.parametrize('wrong, option', [
    ({'amita_api_endpoints': []}, 'amita_api_endpoints'),
    ({'amita_api_certificate': 'cert.pem'}, 'amita_api_certificate'),
    ({'amita_api_token': 'a', 'amita_api_token_file': 'b'},
     'amita_api_token'),
    ({'amita_migration_rate': 1}, 'amita_migration_rate'),
    ({'amita_api_cluster_certificates': True, 'amita_api_ca': None},
     'amita_api_cluster_certificates'),
    ({'amita_protocol': 'iscsi', 'use_chap_auth': True,
      'amita_chap_key': 'short'}, 'amita_chap_key'),
])
def test_settings_that_cannot_be_are_named(wrong, option):
    values = {'amita_api_endpoints': ['n1:7710'], **wrong}
    section = f'wrong_{abs(hash(str(wrong)))}'
    driver = things.driver(values, section, ready=False)
    with pytest.raises(exception.InvalidConfigurationValue) as caught:
        driver.do_setup(things.CONTEXT)
    assert option in str(caught.value)


def test_secrets_are_secret():
    secret = {option.name for option in options.OPTIONS if option.secret}
    assert secret == {'amita_api_token', 'amita_chap_key'}


def test_options_are_told_with_those_of_cinder():
    told = {option.name for option in amita.AmitaDriver.get_driver_options()}
    own = {option.name for option in options.OPTIONS}
    assert told - own == {'use_chap_auth', 'reserved_percentage',
                          'max_over_subscription_ratio', 'replication_device'}
    assert all(name.startswith('amita_') for name in own)
    assert own <= told


def test_the_driver_can_be_active_active():
    assert amita.AmitaDriver.SUPPORTS_ACTIVE_ACTIVE
    for feature in ('v2.1', 'a/a'):
        assert amita.AmitaDriver.supports_replication_feature(feature)
    assert issubclass(amita.AmitaDriver, base.VolumeDriver)


def test_limits_of_a_type():
    kind = things.volume_type(
        {'amita:total_iops_sec': '1000', 'amita:weight': '200',
         'amita:encrypted': '<is> True', 'other:key': 'x'},
        {'total_iops_sec': '500', 'total_iops_sec_max': '900',
         'total_iops_sec_max_length': '60', 'read_bytes_sec': '1048576',
         'latency_target_us': '500'})
    numbers = qos.asked(kind)
    assert qos.limits(numbers, 10) == {
        'iops': {'both': {'rate': 500, 'peak': {'rate': 900, 'seconds': 60}}},
        'bandwidth': {'read': {'rate': 1048576}}}
    assert qos.priority(numbers) == {'weight': 200, 'latency_target_us': 500}
    assert qos.wants_encryption(kind)
    assert not qos.wants_encryption(None)
    assert qos.asked(None) == {}


def test_limits_that_grow_with_the_volume():
    numbers = qos.asked(things.volume_type(qos={
        'total_iops_sec_per_gb': '3', 'total_iops_sec_per_gb_min': '100'}))
    assert qos.grows_with_size(numbers)
    assert qos.limits(numbers, 10)['iops']['both'] == {'rate': 100}
    assert qos.limits(numbers, 1000)['iops']['both'] == {'rate': 3000}
    assert qos.limits({'total_iops_sec': 0}, 1) == {}


def test_qos_of_the_front_end_is_not_the_back_ends():
    kind = things.volume_type(qos={'total_iops_sec': '5'},
                              consumer='front-end')
    assert qos.asked(kind) == {}
    both = things.volume_type(
        qos={'total_iops_sec': '5', 'size_iops_sec': '1'}, consumer='both')
    assert qos.asked(both) == {'total_iops_sec': 5}


@pytest.mark.parametrize('kind, why', [
    ({'extra': {'amita:iopss': '1'}}, exception.InvalidVolumeType),
    ({'qos': {'iopss': '1'}}, exception.InvalidQoSSpecs),
    ({'qos': {'total_iops_sec': '-1'}}, exception.InvalidQoSSpecs),
    ({'qos': {'total_iops_sec': 'many'}}, exception.InvalidQoSSpecs),
])
def test_what_is_misspelt_is_refused(kind, why):
    with pytest.raises(why):
        qos.asked(things.volume_type(**kind))


def test_encryption_that_is_no_word_is_refused():
    with pytest.raises(exception.InvalidVolumeType):
        qos.wants_encryption(things.volume_type({'amita:encrypted': 'aes'}))


GIB = 1 << 30


def pool(quota=None, **more):
    return {'name': 'main', 'copies': 3, 'min_copies': 2, 'level': 'node',
            'class': None, 'raw_bytes': 300 * GIB, 'free_bytes': 150 * GIB,
            'asked': {'provisioned_bytes': 80 * GIB, 'volumes': 7,
                      'snapshots': 1},
            'quota': {'provisioned_bytes': quota, 'volumes': None,
                      'snapshots': None}, **more}


@pytest.mark.parametrize('quota, total, free, ratio', [
    (None, 100, 50, 20.0), (1000 * GIB, 100, 50, 10.0),
    (100 * GIB, 100, 20, 1.0), (90 * GIB, 90, 10, 1.0),
    (10 * GIB, 10, 0, 1.0)])
def test_capacity_counts_data_once_and_keeps_to_the_quota(quota, total, free,
                                                          ratio):
    told = stats.pool(pool(quota), 20.0, 5)
    assert told['total_capacity_gb'] == total
    assert told['free_capacity_gb'] == free
    assert told['max_over_subscription_ratio'] == ratio
    assert told['provisioned_capacity_gb'] == 80
    assert told['reserved_percentage'] == 5


def test_a_pool_that_takes_no_more_volumes_is_full():
    full = pool()
    full['quota']['volumes'] = 7
    assert stats.pool(full, 20.0, 0)['free_capacity_gb'] == 0


def test_labels_are_taken():
    assert names.label('a\nb\x7f') == 'a b '
    assert len(names.label('ä' * 300).encode()) <= 255
    assert names.label(None) == ''


def test_names_in_the_cluster_are_read():
    node = {'subjectAltName': (('URI', 'amita://0f8f/node/n1'),)}
    operator = {'subjectAltName': (('URI', 'amita://0f8f/operator/eve'),)}
    assert list(tls.roles_of(node)) == ['node']
    assert not any(role in tls.ROLES for role in tls.roles_of(operator))
    assert list(tls.roles_of({'subjectAltName': (('DNS', 'n1'),)})) == []
    assert list(tls.roles_of({})) == []


def test_what_is_refused_is_cinders_own_exception_with_advice():
    @errors.translated('volume was not created')
    def create():
        raise errors.Refused(409, 'no-room', 'the quota of pool main is used '
                                             'up')
    with pytest.raises(exception.VolumeBackendAPIException) as caught:
        create()
    for part in ('volume was not created', 'pool main', 'raise the quota'):
        assert part in str(caught.value)
