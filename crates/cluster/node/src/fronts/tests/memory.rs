//! Strangers at NBD, beside a host, and what is left of the memory that is for hosts.

use super::*;
use amita_nbd::NbdFront;

const STRANGERS: usize = 24;

#[test]
fn strangers_who_send_and_do_not_read_hold_nothing_of_what_is_for_hosts() {
    let mut rig = Rig::new();
    let hosts = rig.pool.hosts();
    let all = || [4, 64, 256].map(|kib| free(&hosts, kib << 10));
    let before = all();
    let config = Arc::new(amita_nbd::Config::default());
    let make: MakeFront =
        Box::new(move |id, now, _, outbox| Box::new(NbdFront::accept(config.clone(), id, Who::Stranger, now, outbox)));
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let (_, address) = rig.fronts.listen(&mut rig.driver, local, make).unwrap();
    // The client's flags, and options that nobody knows.
    let mut said = 3u32.to_be_bytes().to_vec();
    said.extend(b"IHAVEOPT\0\0\0\x63\0\0\0\0".repeat(1000));
    let strangers: Vec<TcpStream> = (0..STRANGERS)
        .map(|_| {
            let mut stranger = TcpStream::connect(address).unwrap();
            stranger.write_all(&said).unwrap();
            stranger.set_nonblocking(true).unwrap();
            stranger
        })
        .collect();
    rig.until("all are answered", |_| {
        let answered = |stranger: &TcpStream| matches!(stranger.peek(&mut [0; 64]), Ok(64));
        strangers.iter().all(answered)
    });
    assert_eq!(all(), before);
    let mut host = TcpStream::connect(rig.address).unwrap();
    host.write_all(b"hello").unwrap();
    host.set_nonblocking(true).unwrap();
    rig.until("a host is served", |_| matches!(host.read(&mut [0]), Ok(1)));
    assert_eq!(rig.fronts.sessions(), STRANGERS + 1);
    assert_ne!(all(), before, "the host has a block");
}
