#!/bin/sh
# Ready: each store of this node serves, and lacks no block that others have written while it was away. Until then a rolling update waits, and
# so does whoever asks before he takes a machine (the PodDisruptionBudget). The maintenance that leave.sh has begun ends when the stores serve;
# one that an operator has begun is his.
. /scripts/lib.sh
secrets
wanted=$(echo "$AMITA_STORES" | tr ',' '\n' | wc -l)
found=$(stores)
serve=${found% *} whole=${found#* }
[ "$serve" = "$wanted" ] || die "$serve of $wanted stores serve"
if [ -e /state/leaving ]; then
    amita node maintenance off "$AMITA_NODE"
    rm -f /state/leaving
fi
[ "$whole" = "$wanted" ] || die "$whole of $wanted stores are in sync"
