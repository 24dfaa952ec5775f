//! A process that runs out of descriptors says so, turns away whom it cannot take, and goes on accepting when there are some
//! again. Alone in its binary, because the limit is the whole process's.

use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Completion, Driver, Outcome, Pool, PoolConfig, SocketId, Token, Wait};
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn limit_descriptors(count: u64) {
    let limit = libc::rlimit {
        rlim_cur: count,
        rlim_max: 4096,
    };
    // SAFETY: the structure outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

/// Polls for a time; what came in, and how many accepts failed.
fn run(driver: &mut UringDriver, length: Duration) -> (Vec<SocketId>, u32) {
    let (mut sockets, mut failed) = (Vec::new(), 0);
    let mut completions: Vec<Completion> = Vec::new();
    let started = Instant::now();
    while started.elapsed() < length {
        driver.timer(driver.now().plus(Duration::from_millis(10)), Token(0));
        driver.poll(Wait::UntilEvent, &mut completions);
        for done in completions.drain(..) {
            match done.outcome {
                Outcome::Accepted { socket, .. } => sockets.push(socket),
                Outcome::AcceptFailed { error } => {
                    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                    failed += 1;
                }
                _ => {}
            }
        }
    }
    (sockets, failed)
}

/// Does the other end hold the connection? One that was turned away is told so: nobody waits for nothing.
fn is_held(client: &TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    match (&*client).read(&mut [0]) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => true,
        Ok(0) | Err(_) => false,
        Ok(_) => panic!("nobody has sent anything"),
    }
}

#[test]
fn who_finds_no_descriptor_left_is_turned_away_and_accepting_goes_on_when_there_are_some_again() {
    let pool = Pool::new(PoolConfig::with_total(1 << 20)).unwrap();
    let mut driver = UringDriver::new(UringConfig::default(), pool).unwrap();
    let (_, address) = driver.listen("127.0.0.1:0".parse().unwrap(), Token(1)).unwrap();
    let mut clients: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1;
    limit_descriptors(open + 5);
    let (first, failed) = run(&mut driver, Duration::from_millis(500));
    let room = first.len();
    assert!((3..=8).contains(&room), "{room}");
    assert!(
        (1..=12).contains(&failed),
        "{failed} failures in half a second: one in 50 ms"
    );
    let held = clients.iter().filter(|client| is_held(client)).count();
    assert_eq!(
        held, room,
        "the others are turned away, and those that were taken go on"
    );
    for socket in first {
        driver.close(socket);
    }
    clients.clear();
    run(&mut driver, Duration::from_millis(100));
    let clients: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    let (second, failed) = run(&mut driver, Duration::from_millis(300));
    assert_eq!((second.len(), failed), (clients.len(), 0), "what was closed makes room");
    assert!(clients.iter().all(is_held));
}
