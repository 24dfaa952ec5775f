#!/bin/sh
# Ready: each store of this node serves, and lacks no block that others have written while it was away. Until then a rolling update waits, and
# so does whoever asks before he takes a machine (the PodDisruptionBudget). The maintenance that leave.sh has begun ends when the stores serve;
# one that an operator has begun is his. Kubernetes asks until the node has ended: what leave.sh has begun meanwhile is left alone.
. /scripts/lib.sh
secrets
for path in $(echo "$AMITA_STORES" | tr ',' ' '); do
    set -- "$@" --store "$path"
done
code=0
found=$(amita node ready --json "$@" "$AMITA_NODE") || code=$?
case $found in
    *'"serving": true'*)
        if alone && [ -e /state/leaving ] && [ ! -e "$going" ]; then
            amita node maintenance off "$AMITA_NODE"
            rm -f /state/leaving
        fi
        exec 9>&-
        ;;
esac
why=$(echo "$found" | sed -n 's/^  "why": "\(.*\)".*/\1/p')
[ "$code" = 0 ] || die "${why:-the cluster does not answer}"
