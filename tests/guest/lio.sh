# The kernel's own iSCSI target (LIO) in a guest, for scripts that run there: sourced behind the others. It shows that the
# scenarios hold for a target that many hosts use, and is what the conformance suite is run against beside ours.

modprobe -qa target_core_mod target_core_file iscsi_target_mod
lio_file=/backstores/fileio/disk0

lio() { # commands of targetcli by standard input
    { echo 'set global auto_cd_after_create=false auto_add_default_portal=false auto_save_on_exit=false'; cat; echo exit; } |
        targetcli >/tmp/lio.out 2>&1 || { cat /tmp/lio.out; fail targetcli; }
}

lio_target() { # IQN SIZE
    truncate -s "$2" /tmp/lio.img
    lio <<END
/backstores/fileio create disk0 /tmp/lio.img $2
$lio_file set attribute emulate_tpu=1 emulate_tpws=1
/iscsi create $1
END
}

lio_portal() { # IQN NUMBER PORT: a gateway: a portal group with one portal, which is a target port group of its own
    [ "$2" -eq 1 ] || echo "/iscsi/$1 create $2" | lio
    lio <<END
$lio_file/alua create g$2 $2
/iscsi/$1/tpg$2/luns create $lio_file
/iscsi/$1/tpg$2/luns/lun0 set alua alua_tg_pt_gp_name=g$2
/iscsi/$1/tpg$2 set attribute authentication=0 generate_node_acls=1 cache_dynamic_acls=1 demo_mode_write_protect=0
/iscsi/$1/tpg$2/portals create 127.0.0.1 $3
/iscsi/$1/tpg$2 enable
END
}

lio_serves() { # IQN NUMBER enable|disable: connections break
    echo "/iscsi/$1/tpg$2 $3" | lio
}

lio_access() { # NUMBER STATE: 0 is optimized, 1 is not
    echo "$lio_file/alua/g$1 set alua alua_access_state=$2" | lio
}
