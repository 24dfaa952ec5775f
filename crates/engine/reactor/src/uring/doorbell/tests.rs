use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

fn is_readable(bell: &Doorbell) -> bool {
    sys::wait_readable(&bell.file.0, Duration::ZERO)
}

#[test]
fn it_rings_aloud_only_while_it_is_armed() {
    let mut bell = Doorbell::new().unwrap();
    let waker = bell.waker();
    waker.wake();
    assert!(!is_readable(&bell), "nobody asked");
    assert!(!bell.arm(), "it rang before");
    assert!(bell.arm());
    assert!(bell.arm(), "armed again is armed");
    waker.wake();
    waker.wake();
    assert!(is_readable(&bell));
    bell.silence();
    assert!(!is_readable(&bell));
    // Silenced without a ring, it is as before.
    assert!(bell.arm());
    bell.silence();
    waker.wake();
    assert!(!is_readable(&bell));
}

#[test]
fn a_wait_ends_when_it_rings_and_at_its_limit() {
    let mut bell = Doorbell::new().unwrap();
    bell.wait(Duration::from_millis(1), || false);
    let waker = bell.waker();
    let told = Arc::new(AtomicU64::new(0));
    const ROUNDS: u64 = 2000;
    let teller = {
        let told = told.clone();
        std::thread::spawn(move || {
            for round in 1..=ROUNDS {
                told.store(round, Ordering::Release);
                waker.wake();
                if round % 64 == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        })
    };
    let mut seen = 0;
    let start = Instant::now();
    while seen < ROUNDS {
        let before = seen;
        bell.wait(Duration::from_secs(60), || told.load(Ordering::Acquire) > before);
        seen = told.load(Ordering::Acquire);
        assert!(seen > before, "it ended without a reason");
    }
    assert!(start.elapsed() < Duration::from_secs(50), "a ring was missed");
    teller.join().unwrap();
}
