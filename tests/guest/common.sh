# What scripts for any host in a guest use: sourced before `nvme.sh` or `iscsi.sh`, which knows the `paths`.

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

# Fails where the kernel told a user of a multipath device of an error.
no_errors() {
    if dmesg | grep -E 'I/O error, dev (nvme[0-9]+n[0-9]+|dm-[0-9]+)|Buffer I/O error on dev (nvme|dm-)|XFS .*(error|shutdown)|EXT4-fs error'; then
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
