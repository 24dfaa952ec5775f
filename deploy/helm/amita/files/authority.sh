#!/bin/sh
# The cluster's certificate authority and its first operator, once; then it is served.
. /scripts/lib.sh
ends_when_told
umask 077
own=/state/authority
if [ ! -d "$own" ]; then
    rm -rf "$own.new"
    mkdir "$own.new"
    set -- --ca "$own.new/ca" --identity "$own.new/admin"
    [ -z "${CLUSTER:-}" ] || set -- "$@" --cluster "$CLUSTER"
    amita cluster init "$@"
    mv "$own.new" "$own"
fi
exec amita ca serve --ca "$own/ca" --listen "$(address "$PORT_CA")"
