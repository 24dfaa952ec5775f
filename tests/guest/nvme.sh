# The host side of NVMe/TCP, for scripts that run in a guest: sourced before them.

modprobe -qa nvme-tcp
subsystems=/sys/class/nvme-subsystem

fail() {
    dmesg | tail -n 8 >&2
    echo "FAILED: $*" >&2
    exit 1
}

# Runs a command until it succeeds, at most SECONDS long.
await() { # SECONDS WHAT COMMAND...
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || fail "not so in time: $what; paths: $(paths 2>&1)"
        sleep 0.1
    done
}

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

# Fails where the kernel told a user of a multipath device of an error.
no_errors() {
    if dmesg | grep -E 'I/O error, dev nvme[0-9]+n[0-9]+|Buffer I/O error|XFS .*(error|shutdown)|EXT4-fs error'; then
        fail 'the kernel reports errors'
    fi
}

# Writes every block of a range in random order and reads it back, again and again, until the file STOP is there. Fails on
# the first error or wrong byte.
verify_rounds() { # DEVICE OFFSET SIZE STOP [FIO OPTION...]
    local device=$1 offset=$2 size=$3 stop=$4 rounds=0
    shift 4
    rm -f "$stop"
    while [ ! -e "$stop" ]; do
        fio --name=round --filename="$device" --offset="$offset" --size="$size" --direct=1 --ioengine=libaio \
            --iodepth=16 --rw=randwrite --bs=4k --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=$((rounds + 1)) \
            --minimal "$@" >/tmp/fio.out 2>&1 || { cat /tmp/fio.out; fail "fio, round $rounds"; }
        rounds=$((rounds + 1))
        echo "round $rounds"
    done
    echo "all $rounds rounds verified"
}
