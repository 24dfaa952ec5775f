# The kernel's own iSCSI target (LIO) in a guest, for scripts that run there: sourced behind the others. It shows that the
# scenarios hold for a target that many hosts use, and is what the conformance suite is run against beside ours. By its configfs,
# as `nvmet.sh` does it: targetcli wants a bus of messages.

modprobe -qa target_core_mod target_core_file iscsi_target_mod
lio=/sys/kernel/config/target
lio_disk=$lio/core/fileio_0/disk0

lio_target() { # IQN SIZE
    truncate -s "$2" /tmp/lio.img
    mkdir -p "$lio_disk" "$lio/iscsi/$1" || fail 'no target'
    echo "fd_dev_name=/tmp/lio.img,fd_dev_size=$2,fd_buffered_io=1" >"$lio_disk/control"
    echo 0a1b2c3d-guest >"$lio_disk/wwn/vpd_unit_serial"
    echo 1 >"$lio_disk/enable"
    echo 1 >"$lio_disk/attrib/emulate_tpu"
    echo 1 >"$lio_disk/attrib/emulate_tpws"
}

lio_portal() { # IQN NUMBER PORT: a gateway: a portal group with one portal, which is a target port group of its own
    local group=$lio/iscsi/$1/tpgt_$2
    mkdir "$lio_disk/alua/g$2" "$group" "$group/np/127.0.0.1:$3" "$group/lun/lun_0" || fail 'no portal group'
    echo "$2" >"$lio_disk/alua/g$2/tg_pt_gp_id"
    ln -s "$lio_disk" "$group/lun/lun_0/disk"
    echo "g$2" >"$group/lun/lun_0/alua_tg_pt_gp"
    echo 0 >"$group/attrib/authentication"
    echo 0 >"$group/attrib/demo_mode_write_protect"
    echo 1 >"$group/attrib/generate_node_acls"
    echo 1 >"$group/attrib/cache_dynamic_acls"
    echo 1 >"$group/enable"
}

lio_serves() { # IQN NUMBER 0|1: connections break
    echo "$3" >"$lio/iscsi/$1/tpgt_$2/enable"
}

lio_access() { # NUMBER STATE: 0 is optimized, 1 is not
    echo "$2" >"$lio_disk/alua/g$1/alua_access_state"
}
