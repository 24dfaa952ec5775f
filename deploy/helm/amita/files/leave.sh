#!/bin/sh
# preStop: the node is told to be in maintenance, so that nobody replaces its stores. That is refused while writes could not go on without it, and
# then it is waited for, LEAVE_SECONDS at most: Kubernetes ends the pod after that, whatever is so. /state/leave.log says what was found.
. /scripts/lib.sh
exec >/state/leave.log 2>&1
secrets
end=$(($(date +%s) + LEAVE_SECONDS))
# The node is probed until it ends: a probe would take back what is begun here. One that is about to do so has done it when this is said.
alone || say "a probe that ends maintenance hangs, and is not waited for"
: >"$going"
exec 9>&-
refused=5 unreachable=3
if is_maintained && [ ! -e /state/leaving ]; then
    say "an operator has begun maintenance: it is not ended with the next start"
    exit 0
fi
while [ "$(date +%s)" -lt "$end" ]; do
    : >/state/leaving
    code=0
    amita node maintenance on "$AMITA_NODE" || code=$?
    case $code in
        0) exit 0 ;;
        "$refused" | "$unreachable") rest 2 ;;
        *) die "the node goes without having been let go" ;;
    esac
done
say "the node goes after $LEAVE_SECONDS s, though writes of some groups may wait"
