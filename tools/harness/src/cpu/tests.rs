use super::{Meter, of_this_thread, parse_stat};
use std::time::{Duration, Instant};

#[test]
fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
    let line = "77 (a (b) c) S 1 77 77 0 -1 4194560 120 0 0 0 11 22 33 44 20 0 1 0 5 6 7";
    assert_eq!(parse_stat(line), Some([11, 22, 33, 44]));
    assert_eq!(parse_stat("77 (short) S 1 2"), None);
    assert_eq!(parse_stat(""), None);
}

#[test]
fn work_is_seen() {
    let meter = Meter::start([std::process::id()]);
    let thread_before = of_this_thread().expect("scheduler statistics");
    let start = Instant::now();
    let mut sum = 0u64;
    while start.elapsed() < Duration::from_millis(120) {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }
    let thread = of_this_thread().expect("scheduler statistics") - thread_before;
    assert!(thread > Duration::from_millis(10), "this thread has used {thread:?}");
    assert!(
        meter.used() >= Duration::from_millis(10),
        "this process has used {:?}",
        meter.used()
    );
}
