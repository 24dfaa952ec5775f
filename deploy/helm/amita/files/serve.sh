#!/bin/sh
# The node. It ends where it finds no metadata, and Kubernetes waits longer and longer before it starts it again: so the metadata is waited for here.
. /scripts/lib.sh
ends_when_told
secrets
# A container that was ended in this pod, and not with it, is started anew here, and finds what it has left in /tmp.
rm -f "$going"
# What the last stop said: nobody hears a preStop hook.
[ ! -s /state/leave.log ] || sed 's/^/at the last stop: /' /state/leave.log
unreachable=3
while :; do
    code=0
    amita node list >/dev/null || code=$?
    [ "$code" = "$unreachable" ] || break
    rest 2
done
set -- --fabric "$(address "$PORT_FABRIC")" --metrics "$(address "$PORT_METRICS")" --api "$(address "$PORT_API")" "$@"
[ -z "${PORT_NVME:-}" ] || set -- --nvme "$(address "$PORT_NVME")" "$@"
[ -z "${PORT_ISCSI:-}" ] || set -- --iscsi "$(address "$PORT_ISCSI")" "$@"
[ -z "${PORT_NBD:-}" ] || set -- --nbd "$(address "$PORT_NBD")" "$@"
exec amita serve "$@"
