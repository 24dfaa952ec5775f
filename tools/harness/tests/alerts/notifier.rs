//! Whom the cluster tells of alerts by itself does not hear it.

use crate::world::{Plan, World};
use amita_harness::ports;
use std::net::TcpListener;

/// A receiver of syslog by TCP that takes whatever comes. It ends with the process.
fn receive(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        }
    });
}

/// Five attempts take about a minute.
#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_channel_fails() {
    let mut world = World::of(Plan::default());
    let port = ports::free();
    let server = format!("127.0.0.1:{port}");
    let add = ["notify", "add", "syslog", "logs", "--by", "tcp", "--server", &server];
    let which = [
        "--allow-loopback",
        "--severity",
        "info",
        "--code",
        "node-maintained",
        "--group-wait",
        "1s",
    ];
    world.done(&[&add[..], &which].concat());
    world.done(&["node", "maintenance", "on", "n2"]);
    world.fault("nobody listens where a channel tells of a node's maintenance");
    world.fires("AmitaChannelFailing", "1 channels");
    world.mended();
    receive(port);
    // What waits is sent as soon as a test was taken.
    world.done(&["notify", "test", "logs"]);
    world.ends("AmitaChannelFailing");
    world.done(&["node", "maintenance", "off", "n2"]);
    world.is_quiet();
}
