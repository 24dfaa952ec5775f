# The host side of iSCSI, for scripts that run in a guest: sourced before them, behind `common.sh`. It has the functions of
# `nvme.sh`, so that a scenario holds for both: what is a subsystem and its namespace N there is a target and its LUN N here.
# open-iscsi, dm-multipath and udev are the distribution's, with the settings that `amita volume attach` prints.

sessions_folder=/sys/class/iscsi_session

# What an init and the packages' scripts do at a start.
host_starts() { # THE INITIATOR'S NAME; the file of multipath's settings comes by standard input
    [ ! -e /run/iscsi-host ] || return 0
    modprobe -qa iscsi_tcp sd_mod dm_multipath dm_service_time scsi_dh_alua crc32c
    mkdir -p /run/udev /run/lock/iscsi /etc/iscsi /etc/multipath/conf.d
    echo "InitiatorName=$1" >/etc/iscsi/initiatorname.iscsi
    cat >/etc/multipath/conf.d/amita.conf
    /usr/lib/systemd/systemd-udevd --daemon >/dev/null 2>&1 || fail udevd
    udevadm trigger --action=add --subsystem-match=block --subsystem-match=scsi && udevadm settle
    iscsid >/dev/null 2>&1 || fail iscsid
    multipathd >/dev/null 2>&1 || fail multipathd
    await 60 'multipathd answers' multipathd show daemon
    touch /run/iscsi-host
}

# The sessions with a target, by their names.
sessions() { # IQN
    local folder
    for folder in "$sessions_folder"/session*; do
        [ "$(cat "$folder/targetname" 2>/dev/null)" = "$1" ] && echo "${folder##*/}"
    done
}

# The disk of a session's LUN.
session_disk() { # SESSION [LUN]
    local found
    for found in "$sessions_folder/$1"/device/target*/*:"${2:-0}"/block/*; do
        [ -e "$found" ] && echo "${found##*/}"
    done
}

# Where a session is: ADDRESS and PORT as they were asked for, not where a login was led to.
session_place() { # SESSION
    local connection=/sys/class/iscsi_connection/connection${1#session}:0
    echo "traddr=$(cat "$connection/persistent_address" 2>/dev/null),trsvcid=$(cat "$connection/persistent_port" 2>/dev/null)"
}

# The paths to all targets, or to one: session, state, place, disk. One is live that multipath uses, or could.
paths() { # [IQN]
    local session state disk
    for session in "$sessions_folder"/session*; do
        [ -e "$session/targetname" ] || continue
        [ $# -eq 0 ] || [ "$(cat "$session/targetname")" = "$1" ] || continue
        disk=$(session_disk "${session##*/}")
        state=$(cat "$session/state")
        if [ "$state" = LOGGED_IN ] && [ -n "$disk" ] && is_active "$disk"; then state=live; fi
        echo "${session##*/} $state $(session_place "${session##*/}") ${disk:-no disk}"
    done
}

# Does multipath send I/O by this disk? Where there is no map of it, one can.
is_active() { # DISK
    local number map
    number=$(cat "/sys/block/$1/dev" 2>/dev/null) || return 1
    map=$(map_of "$1") || return 0
    dmsetup status "$map" | grep -q " $number A "
}

# The map that a disk is a path of.
map_of() { # DISK
    local holder
    for holder in /sys/block/"$1"/holders/dm-*; do
        [ -e "$holder" ] && cat "$holder/dm/name" && return 0
    done
    return 1
}

live_paths() { # IQN COUNT: exactly so many live paths
    [ "$(paths "$1" | grep -c ' live ')" -eq "$2" ]
}

await_paths() { # IQN COUNT [SECONDS]
    await "${3:-90}" "$2 live paths to $1" live_paths "$1" "$2"
}

# The session at an address.
controller_at() { # IQN ADDRESS PORT
    paths "$1" | awk -v want="traddr=$2,trsvcid=$3" '$3 == want { print $1 }' | head -n 1
}

# States of the target port groups as the kernel sees them, path by path.
ana() { # IQN [LUN]
    local session disk
    for session in $(sessions "$1"); do
        disk=$(session_disk "$session" "${2:-0}")
        [ -n "$disk" ] && echo "$disk $(sed 's|^active/||' "/sys/block/$disk/device/access_state")"
    done
}

# Is the path to an address the only optimized one?
optimized() { # IQN ADDRESS PORT
    local disk
    disk=$(session_disk "$(controller_at "$@")")
    ana "$1" | grep -q "^$disk optimized\$" && [ "$(ana "$1" | grep -c ' optimized')" -eq 1 ]
}

# A disk's name by its designator, as multipath and udev have it.
wwid() { # DISK
    tr -d '\0' <"/sys/block/$1/device/wwid" | sed -n 's/^naa\./3/p'
}

# The multipath device. Multipath does not take a disk that it does not know (`find_multipaths strict`, the default), see `known`.
device_name() { # IQN [LUN]
    local session disk map
    for session in $(sessions "$1"); do
        disk=$(session_disk "$session" "${2:-0}")
        [ -n "$disk" ] && map=$(map_of "$disk") && echo "/dev/mapper/$map" && return 0
    done
    return 1
}

device() { # IQN [LUN]
    # Where there is a map, no single disk is asked: its gateway may be silent.
    has_device "$@" && device_name "$@" && return 0
    await 60 "a disk for LUN ${2:-0} of $1" has_disk "$@" || return 1
    known "$@"
    await 60 "a device for LUN ${2:-0} of $1" has_device "$@" || return 1
    device_name "$@"
}

# The map is there before udev has made its name.
has_device() { # IQN [LUN]
    [ -b "$(device_name "$@")" ]
}

has_disk() { # IQN [LUN]
    [ -n "$(session_disk "$(sessions "$1" | head -n 1)" "${2:-0}")" ]
}

# Tells multipath that a disk is one of its own, as the commands do that `amita volume attach` prints.
known() { # IQN [LUN]
    local disk
    disk=$(session_disk "$(sessions "$1" | head -n 1)" "${2:-0}")
    udevadm settle
    grep -q "$(wwid "$disk")" /etc/multipath/wwids 2>/dev/null && return 0
    multipath -a "/dev/$disk" >/dev/null && multipathd reconfigure >/dev/null || fail "multipath -a /dev/$disk"
}

# Options are settings of the record (NAME=VALUE), or those of `nvme connect` that have a counterpart.
connect() { # ADDRESS PORT IQN [OPTION...]
    local place=$1:$2 iqn=$3
    shift 3
    iscsiadm -m node -o new -T "$iqn" -p "$place" >/dev/null || return $?
    # Times of a machine that is emulated, where a host is silent for seconds.
    set -- 'node.session.timeo.replacement_timeout=5' 'node.conn[0].timeo.login_timeout=30' 'node.conn[0].timeo.noop_out_interval=5' \
        'node.conn[0].timeo.noop_out_timeout=30' 'node.session.initial_login_retry_max=1' "$@"
    while [ $# -gt 0 ]; do
        case $1 in
            --hdr-digest) set_record "$iqn" "$place" 'node.conn[0].iscsi.HeaderDigest=CRC32C' || return $? ;;
            --data-digest) set_record "$iqn" "$place" 'node.conn[0].iscsi.DataDigest=CRC32C' || return $? ;;
            --keep-alive-tmo) set_record "$iqn" "$place" "node.conn[0].timeo.noop_out_timeout=$2" || return $?; shift ;;
            *=*) set_record "$iqn" "$place" "$1" || return $? ;;
            *) fail "connect: what is $1?" ;;
        esac
        shift
    done
    iscsiadm -m node -T "$iqn" -p "$place" --login
}

set_record() { # IQN PLACE NAME=VALUE
    iscsiadm -m node -T "$1" -p "$2" -o update -n "${3%%=*}" -v "${3#*=}" >/dev/null
}

disconnect() { # IQN: until nothing of it is left
    local session map
    # Who closes a disk that was written makes udev read it, and what it reads of a map that is being taken away is an error in the kernel's log.
    udevadm settle --timeout=5
    for session in $(sessions "$1"); do
        for disk in "$sessions_folder/$session"/device/target*/*/block/*; do
            [ -e "$disk" ] && map=$(map_of "${disk##*/}") || continue
            # What has it open is to see errors, and not to wait for paths.
            multipathd disablequeueing map "$map" >/dev/null
            multipathd del map "$map" >/dev/null 2>&1
        done
    done
    iscsiadm -m node -T "$1" --logout >/dev/null 2>&1
    iscsiadm -m node -T "$1" -o delete >/dev/null 2>&1
    await 60 "$1 gone" flushed "$1"
}

# What was in use when its last path went is taken away when it is not any more.
flushed() { # IQN
    multipath -F >/dev/null 2>&1
    gone "$1"
}

gone() { # IQN
    [ -z "$(sessions "$1")" ] && ! dmsetup ls --target multipath 2>/dev/null | grep -q '('
}

# Disks that have grown are found to have, and the map of them with them, as docs/operating/linux-iscsi.md says.
look_again() { # IQN
    local map
    map=$(basename "$(device "$1")")
    iscsiadm -m node -T "$1" --rescan >/dev/null || fail rescan
    udevadm settle
    multipathd resize map "$map" >/dev/null || fail 'resize map'
}

# Whatever is left of all targets.
disconnect_all() {
    local target
    for target in $(cat "$sessions_folder"/session*/targetname 2>/dev/null | sort -u); do disconnect "$target"; done
    iscsiadm -m node -o delete >/dev/null 2>&1
}
