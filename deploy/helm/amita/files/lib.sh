# What the scripts of this chart share. Every container has it, with the others, in /scripts; dash and the tools of Debian are enough.
set -eu

say() { echo "${0##*/}: $*"; }
die() { say "$*" >&2; exit 1; }

# As PID 1 a shell is not ended by a signal that it does not expect.
ends_when_told() { trap 'exit 0' TERM INT; }
# A sleep that a signal ends.
rest() { sleep "$1" & wait $!; }

# Where this pod listens: brackets belong around IPv6.
address() { # PORT
    case $POD_IP in
        *:*) echo "[$POD_IP]:$1" ;;
        *) echo "$POD_IP:$1" ;;
    esac
}

# Files of Secrets are root's, and a pod without root reads them by a group: amita refuses such keys. So they are copied; anew when they change.
secrets() {
    [ -d /secrets ] || return 0
    mkdir -p -m 0700 /tmp/secrets
    local file own
    for file in /secrets/*; do
        own=/tmp/secrets/${file##*/}
        [ -f "$file" ] || continue
        ! cmp -s "$file" "$own" 2>/dev/null || continue
        (umask 077 && cat "$file" >"$own.$$" && mv "$own.$$" "$own")
    done
}

# It is there from the moment at which this container is told to end until it is started anew. /tmp goes with the pod.
going=/tmp/going
# Waits until no other script of this container is where it may begin or end maintenance, and keeps them waiting until file 9 is closed. Not for
# ever: who hangs there is no reason to keep the node.
alone() {
    exec 9>/tmp/maintenance.lock
    flock --timeout 20 9
}

# Is this node in maintenance, whoever has begun it?
is_maintained() {
    amita node list --json | awk -v name="\"$AMITA_NODE\"," '
        /^  \{/ { own = 0 }
        /^    "name": / { own = $2 == name }
        own && /^    "maintenance": true/ { found = 1 }
        END { exit !found }'
}
