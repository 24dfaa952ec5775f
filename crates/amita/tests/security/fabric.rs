//! Links between nodes that prove who they are: data goes as before, and whoever cannot prove anything gets nothing.

use crate::world::{A_NODE_IS_GONE, PATIENCE, World, eventually, pattern};
use std::io::{Read, Write};
use std::net::TcpStream;

/// What a node says of somebody who could not prove who he is, and of a peer that does not believe it.
const NOT_BELIEVED: &[&str] = &["could not prove who it is", "refused the connection"];

fn log(world: &World, node: usize) -> String {
    std::fs::read_to_string(world.cluster.node_log(node)).expect("a log")
}

#[test]
fn a_cluster_whose_links_are_protected_serves_and_strangers_get_nothing() {
    let world = World::with_volume();
    let mut client = world.open(0);
    let block = pattern(7, 1 << 20);
    client.write(0, &block).expect("written");
    client.close();
    let mut client = world.open(1);
    let mut read = vec![0; block.len()];
    client.read(0, &mut read).expect("read by another gateway");
    assert!(read == block, "what was written by one gateway is read by another");

    // The first bytes of a hello, as a node without a certificate says it; something else; nothing at all.
    let plain_hello: &[u8] = b"\x00\x00\x00\x00Am\x00\x01\x44\x00\x00\x00\x00\x00\x00\x00";
    for said in [plain_hello, b"GET / HTTP/1.1\r\n\r\n", b""] {
        let mut stranger = TcpStream::connect(world.cluster.nodes()[0].fabric).expect("a connection");
        stranger.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stranger.write_all(said).expect("said");
        let mut answer = Vec::new();
        // A reset is an end as well.
        let _ = stranger.read_to_end(&mut answer);
        // A TLS alert at most: a record's header and two bytes.
        assert!(answer.len() <= 7, "a stranger was told {answer:?}");
    }
    eventually("the stranger is told of", || log(&world, 0).contains(NOT_BELIEVED[0]));
    client.write(0, &block).expect("written as before");
    client.close();
    world.end(NOT_BELIEVED);
}

#[test]
fn a_node_that_was_revoked_is_cut_off_at_once_and_stays_so() {
    let world = World::with_volume();
    let mut client = world.open(0);
    let block = pattern(11, 1 << 20);
    client.write(0, &block).expect("written");
    let authority = world.cluster.authority().expect("a secure cluster");
    authority.revoke("n3").expect("revoked");
    // What the authority's server tells the others within half a minute: here each is renewed at once.
    for name in ["n1", "n2"] {
        authority
            .renew_identity(&world.file(&format!("{name}.identity")))
            .expect("renewed");
    }
    // Its copy does not take part any more, and writes go on.
    eventually("its store is evicted", || log(&world, 0).contains(A_NODE_IS_GONE[0]));
    client.write(0, &block).expect("written without it");
    // It calls again and again, in vain.
    eventually("it is refused", || log(&world, 0).contains(NOT_BELIEVED[0]));
    let mut read = vec![0; block.len()];
    client.read(0, &mut read).expect("read");
    assert!(read == block);
    client.close();
    world.end(&[NOT_BELIEVED, A_NODE_IS_GONE].concat());
}
