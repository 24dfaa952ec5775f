#!/bin/sh
# The metadata server.
. /scripts/lib.sh
ends_when_told
exec amita meta --listen "$(address "$PORT_META")" --data /state/metadata.redb
