"""Uses the generated client with a real node: what it makes is there, a lost update is refused, and an error is a problem with a code."""

import os
from pathlib import Path

from amita_client import AuthenticatedClient
from amita_client.api.cluster import show_health
from amita_client.api.volumes import change_volume, create_volume, delete_volume, list_volumes, show_volume
from amita_client.models import Health, NewVolume, Problem, VolumeChange


def client(role):
    token = (Path(os.environ["AMITA_TOKENS"]) / role).read_text().strip()
    return AuthenticatedClient(base_url=os.environ["AMITA_API"], token=token)


def problem(answer, status, code):
    assert isinstance(answer.parsed, Problem), answer
    assert (answer.status_code, answer.parsed.status, answer.parsed.code) == (status, status, code), answer.parsed


def main():
    operator, viewer = client("operator"), client("viewer")
    health = show_health.sync(client=viewer)
    assert isinstance(health, Health) and health.health == "ok", health

    wanted = NewVolume(name="made", pool="fast", size_bytes=16 << 20)
    problem(create_volume.sync_detailed(client=viewer, body=wanted), 403, "denied")
    made = create_volume.sync_detailed(client=operator, body=wanted)
    assert made.status_code == 201 and made.parsed.size_bytes == 16 << 20, made
    problem(create_volume.sync_detailed(client=operator, body=wanted), 409, "exists")

    first = list_volumes.sync(client=viewer, limit=1)
    rest = list_volumes.sync(client=viewer, after=first.next_)
    assert [volume.name for volume in first.items + rest.items] == ["disk0", "made"], (first, rest)
    assert rest.next_ is None, rest

    seen = show_volume.sync_detailed(name="made", client=operator)
    tag = seen.headers["ETag"]
    changed = change_volume.sync_detailed(name="made", client=operator, if_match=tag, body=VolumeChange(protected=True))
    assert changed.status_code == 200 and changed.parsed.protected, changed
    again = VolumeChange(protected=False)
    problem(change_volume.sync_detailed(name="made", client=operator, if_match=tag, body=again), 412, "changed")
    tag = changed.headers["ETag"]
    assert change_volume.sync(name="made", client=operator, if_match=tag, body=again).protected is False
    assert delete_volume.sync_detailed(name="made", client=operator, if_match="*", now=True).status_code == 200
    problem(show_volume.sync_detailed(name="made", client=viewer), 404, "not-found")
    print("the client of Python does what it says")


main()
