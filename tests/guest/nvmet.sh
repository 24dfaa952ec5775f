# The kernel's own NVMe/TCP target in a guest, for scripts that run there: sourced before them. It shows that the harness
# and the scenarios hold for a target that many hosts use, and what differs between that one and ours.

modprobe -qa nvmet nvmet-tcp
nvmet=/sys/kernel/config/nvmet

nvmet_subsystem() { # NQN SIZE
    local folder=$nvmet/subsystems/$1
    truncate -s "$2" "/tmp/$1.backing"
    mkdir "$folder"
    echo 1 >"$folder/attr_allow_any_host"
    mkdir "$folder/namespaces/1"
    echo 1 >"$folder/namespaces/1/buffered_io"
    echo "/tmp/$1.backing" >"$folder/namespaces/1/device_path"
    echo 1 >"$folder/namespaces/1/enable"
}

nvmet_port() { # PORT [ADDRESS]: a gateway
    local folder=$nvmet/ports/$1
    mkdir "$folder"
    echo tcp >"$folder/addr_trtype"
    echo ipv4 >"$folder/addr_adrfam"
    echo "${2:-127.0.0.1}" >"$folder/addr_traddr"
    echo "$1" >"$folder/addr_trsvcid"
}

nvmet_refer() { # PORT OTHER: the discovery log of a port refers to another one
    local folder=$nvmet/ports/$1/referrals/$2
    mkdir "$folder"
    echo tcp >"$folder/addr_trtype"
    echo ipv4 >"$folder/addr_adrfam"
    echo 127.0.0.1 >"$folder/addr_traddr"
    echo "$2" >"$folder/addr_trsvcid"
    echo "$2" >"$folder/addr_portid"
    echo 1 >"$folder/enable"
}

nvmet_link() { # NQN PORT: the gateway serves the subsystem
    ln -s "$nvmet/subsystems/$1" "$nvmet/ports/$2/subsystems/$1"
}

nvmet_unlink() { # NQN PORT: connections break
    rm "$nvmet/ports/$2/subsystems/$1"
}

nvmet_ana() { # PORT STATE
    echo "$2" >"$nvmet/ports/$1/ana_groups/1/ana_state"
}

nvmet_grow() { # NQN SIZE
    truncate -s "$2" "/tmp/$1.backing"
    echo 1 >"$nvmet/subsystems/$1/namespaces/1/revalidate_size"
}

nvmet_host() { # NQN HOST: only hosts that are listed
    echo 0 >"$nvmet/subsystems/$1/attr_allow_any_host"
    [ -d "$nvmet/hosts/$2" ] || mkdir "$nvmet/hosts/$2"
    ln -s "$nvmet/hosts/$2" "$nvmet/subsystems/$1/allowed_hosts/$2"
}
