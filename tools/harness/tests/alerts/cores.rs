//! A core that stands still, files that run out, and somebody who floods a port.

use crate::core::StoppedCore;
use crate::world::{Plan, World};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_core_stands_still() {
    let mut world = World::of(Plan::default());
    let instance = world.instance(2);
    let process = world.cluster.nodes()[2].process.as_ref().expect("it runs").pid();
    world.fault("the one thread that is a node's core is stopped (ptrace)");
    let core = StoppedCore::stop(process).expect("it may be traced");
    world.fires("AmitaCoresSilent", &instance);
    world.mended();
    drop(core);
    world.ends("AmitaCoresSilent");
    world.is_quiet();
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn files_run_out() {
    let plan = Plan {
        begins: "[ \"$1 $3\" = 'serve n3' ] && ulimit -n 512".to_owned(),
        ..Plan::default()
    };
    let mut world = World::of(plan);
    let instance = world.instance(2);
    world.fault("a node that may have 512 files open has 430 connections of hosts");
    let hosts: Vec<_> = (0..430).map(|_| world.open(2)).collect();
    world.fires("AmitaFilesRunOut", &instance);
    world.mended();
    drop(hosts);
    world.ends("AmitaFilesRunOut");
    world.is_quiet();
}

/// Opens and closes connections as fast as it can until it is told to end.
fn flood(port: SocketAddr, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        let several: Vec<_> = (0..64)
            .filter_map(|_| TcpStream::connect_timeout(&port, Duration::from_millis(100)).ok())
            .collect();
        drop(several);
    }
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn somebody_floods_a_port() {
    let mut world = World::of(Plan::default());
    let (instance, nbd) = (world.instance(2), world.cluster.nodes()[2].nbd);
    world.fault("somebody opens connections to a node's NBD port as fast as he can");
    let over = AtomicBool::new(false);
    let alerts = [
        ("AmitaAcceptPauses", instance.as_str()),
        ("AmitaConnectionsRefused", instance.as_str()),
    ];
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| flood(nbd, &over));
        }
        // A test that fails ends the flood, too.
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.all_fire(&alerts)));
        over.store(true, Ordering::Release);
        if let Err(why) = seen {
            std::panic::resume_unwind(why);
        }
    });
    world.mended();
    world.all_end(&alerts);
    world.is_quiet();
}
