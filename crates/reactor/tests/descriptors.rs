//! A process that runs out of descriptors says so and goes on accepting when there are some again. Alone in its
//! binary, because the limit is the whole process's.

use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Completion, Driver, Outcome, Pool, PoolConfig, SocketId, Token, Wait};
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

#[test]
fn accepting_goes_on_after_descriptors_ran_out_and_does_not_spin_meanwhile() {
    let pool = Pool::new(PoolConfig::with_total(1 << 20)).unwrap();
    let mut driver = UringDriver::new(UringConfig::default(), pool).unwrap();
    let (_, address) = driver.listen("127.0.0.1:0".parse().unwrap(), Token(1)).unwrap();
    let clients: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1;
    limit_descriptors(open + 5);
    let (first, failed) = run(&mut driver, Duration::from_millis(500));
    let room = first.len();
    assert!((3..=8).contains(&room), "{room}");
    assert!(
        (2..=12).contains(&failed),
        "{failed} failures in half a second: one in 50 ms"
    );
    for socket in first {
        driver.close(socket);
    }
    let (second, _) = run(&mut driver, Duration::from_millis(300));
    assert_eq!(second.len(), room, "what was closed makes room");
    limit_descriptors(4096);
    let (rest, _) = run(&mut driver, Duration::from_millis(300));
    assert_eq!(rest.len(), clients.len() - 2 * room);
}
