"""QoS: what a volume type asks for, as limits and priority of a volume.

Keys are those that Cinder has for the front end (`total_iops_sec`,
`read_bytes_sec_max`, `write_iops_sec_per_gb`...), so that one specification
does for both, and three of Amita's own. They stand in QoS specs whose consumer
is `back-end` or `both`, or in extra specs behind `amita:`; QoS specs go first.
"""

from cinder import context
from cinder import exception
from cinder import objects

PREFIX = 'amita:'
SIDES = {'total': 'both', 'read': 'read', 'write': 'write'}
MEASURES = {'iops': 'iops', 'bytes': 'bandwidth'}
# A peak (`_max`) lasts so many seconds where `_max_length` does not say.
PEAK_SECONDS = 1

OWN = {'weight': 'weight', 'reserve_bytes_sec': 'reservation',
       'latency_target_us': 'latency_target_us'}

# Of the extra specs behind `amita:`, those that are no QoS.
ENCRYPTED = 'encrypted'
NOT_QOS = (ENCRYPTED,)

KEYS = {f'{side}_{measure}_sec{ending}'
        for side in SIDES for measure in MEASURES
        for ending in ('', '_max', '_max_length', '_per_gb', '_per_gb_min')}


def _number(key, text):
    try:
        value = int(str(text).strip())
        if value < 0:
            raise ValueError
    except ValueError:
        raise exception.InvalidQoSSpecs(
            reason=f'{key} is {text!r}: a whole number is wanted') from None
    return value


def _specs(volume_type):
    """The QoS specs of a type. Users may not look at them, and create volumes
    of it: so an administrator's rights are used."""
    if not volume_type.qos_specs_id:
        return None
    if volume_type.obj_attr_is_set('qos_specs'):
        return volume_type.qos_specs
    return objects.QualityOfServiceSpecs.get_by_id(
        context.get_admin_context(), volume_type.qos_specs_id)


def asked(volume_type):
    """What a type asks for: key to number. An unknown key is refused: a
    misspelt limit would be none."""
    if volume_type is None:
        return {}
    found = {}
    for key, text in (volume_type.extra_specs or {}).items():
        if key.startswith(PREFIX) and key[len(PREFIX):] not in NOT_QOS:
            found[key[len(PREFIX):]] = text
    specs = _specs(volume_type)
    if specs is not None and specs.consumer in ('back-end', 'both'):
        for key, text in (specs.specs or {}).items():
            if key in KEYS or key in OWN:
                found[key] = text
            elif specs.consumer == 'back-end':
                raise exception.InvalidQoSSpecs(
                    reason=f'Amita does not know {key}; it knows '
                           f'{", ".join(sorted(KEYS | set(OWN)))}')
    unknown = [key for key in found if key not in KEYS and key not in OWN]
    if unknown:
        raise exception.InvalidVolumeType(
            reason=f'Amita does not know {PREFIX}{unknown[0]}; it knows '
                   f'{PREFIX}{ENCRYPTED} and the keys of QoS')
    return {key: _number(key, text) for key, text in found.items()}


def limits(numbers, size_gb):
    """The body of PUT .../limits, for a volume of that size; null where it is
    not limited. 0 is no limit, as for the front end."""
    body = {}
    for measure, measured in MEASURES.items():
        sides = {}
        for side, called in SIDES.items():
            key = f'{side}_{measure}_sec'
            rate = numbers.get(key, 0)
            each = numbers.get(f'{key}_per_gb', 0)
            if each and not rate:
                rate = max(each * size_gb, numbers.get(f'{key}_per_gb_min', 0))
            if not rate:
                continue
            sides[called] = {'rate': rate}
            peak = numbers.get(f'{key}_max', 0)
            if peak > rate:
                seconds = numbers.get(f'{key}_max_length', 0) or PEAK_SECONDS
                sides[called]['peak'] = {'rate': peak, 'seconds': seconds}
        if sides:
            body[measured] = sides
    return body


def priority(numbers):
    """The body of PUT .../priority."""
    return {called: numbers[key] for key, called in OWN.items()
            if numbers.get(key)}


def grows_with_size(numbers):
    return any(key.endswith('_per_gb') and number
               for key, number in numbers.items())


def wants_encryption(volume_type):
    """Encrypted at rest, by Amita: `amita:encrypted` = `<is> True`."""
    if volume_type is None:
        return False
    text = (volume_type.extra_specs or {}).get(PREFIX + ENCRYPTED, '')
    text = text.strip().lower().removeprefix('<is>').strip()
    if text in ('true', 'yes', '1'):
        return True
    if text in ('', 'false', 'no', '0'):
        return False
    raise exception.InvalidVolumeType(
        reason=f'{PREFIX}{ENCRYPTED} is {text!r}: "<is> True" or "<is> False" '
               f'is wanted')
