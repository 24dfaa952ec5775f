# The host side of NVMe/TCP, for scripts that run in a guest: sourced before them, behind `common.sh`.

modprobe -qa nvme-tcp
subsystems=/sys/class/nvme-subsystem

# The kernel's folder of a subsystem.
subsystem() { # NQN
    local folder
    for folder in "$subsystems"/*; do
        [ "$(cat "$folder/subsysnqn" 2>/dev/null)" = "$1" ] && echo "$folder" && return 0
    done
    return 1
}

# The controllers of all subsystems, or of one: name, state, queues, address.
paths() { # [NQN]
    local controller
    for controller in /sys/class/nvme/nvme*; do
        [ -e "$controller/subsysnqn" ] || continue
        [ $# -eq 0 ] || [ "$(cat "$controller/subsysnqn")" = "$1" ] || continue
        echo "${controller##*/} $(cat "$controller/state") queues=$(cat "$controller/queue_count") $(cat "$controller/address")"
    done
}

live_paths() { # NQN COUNT: exactly so many live paths
    [ "$(paths "$1" | grep -c ' live ')" -eq "$2" ]
}

await_paths() { # NQN COUNT [SECONDS]
    await "${3:-90}" "$2 live paths to $1" live_paths "$1" "$2"
}

# The controller at an address.
controller_at() { # NQN ADDRESS PORT
    paths "$1" | awk -v want="traddr=$2,trsvcid=$3" 'index($0, want) { print $1 }' | head -n 1
}

# ANA states as the kernel sees them, path by path.
ana() { # NQN [NSID]
    local folder path
    folder=$(subsystem "$1") || return 1
    for path in "$folder"/nvme*/nvme*c*n*; do
        [ -e "$path/ana_state" ] && [ "$(cat "$path/nsid")" = "${2:-1}" ] || continue
        echo "${path##*/} $(cat "$path/ana_state")"
    done
}

device_name() { # NQN [NSID]
    local folder namespace
    folder=$(subsystem "$1") || return 1
    for namespace in "$folder"/nvme*n*; do
        case ${namespace##*/} in *c*) continue ;; esac
        [ "$(cat "$namespace/nsid" 2>/dev/null)" = "${2:-1}" ] && [ -b "/dev/${namespace##*/}" ] &&
            echo "/dev/${namespace##*/}" && return 0
    done
    return 1
}

device() { # NQN [NSID]: the multipath device of a namespace, once it is there
    await 60 "a device for namespace ${2:-1} of $1" device_name "$@" || return 1
    device_name "$@"
}

connect() { # ADDRESS PORT NQN [OPTION...]
    local address=$1 port=$2 nqn=$3
    shift 3
    # Time-outs of a machine that is emulated, and of tests: what waits is looked for soon, and given up late. Such a host is
    # silent for seconds where the machine has something else to do, and a gateway would take it for gone.
    nvme connect --transport tcp --traddr "$address" --trsvcid "$port" --nqn "$nqn" \
        --reconnect-delay 1 --ctrl-loss-tmo 600 --keep-alive-tmo 30 "$@" || return $?
}

disconnect() { # NQN: until nothing of it is left
    nvme disconnect --nqn "$1" >/dev/null 2>&1
    await 60 "$1 gone" gone "$1"
}

gone() { # NQN
    [ -z "$(paths "$1")" ]
}

# The kernel finds out by itself that a namespace has grown.
look_again() { # NQN
    :
}

# Is the path to an address the only optimized one?
optimized() { # NQN ADDRESS PORT
    local path
    path=$(echo "$(subsystem "$1")/$(controller_at "$@")"/nvme*c*n*)
    [ "$(cat "$path/ana_state")" = optimized ] && [ "$(ana "$1" | grep -c ' optimized')" -eq 1 ]
}

disconnect_all() {
    nvme disconnect-all
}
