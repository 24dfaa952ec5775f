use super::{Foreign, Machine, Watched, Window, field, foreign, parse_machine};
use std::time::Duration;

fn seconds(value: u64) -> Duration {
    Duration::from_secs(value)
}

#[test]
fn the_machine_is_busy_with_all_but_idling_waiting_and_what_is_stolen() {
    let text = "cpu  100 200 300 9000 8000 10 20 50 7 7\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
    let found = parse_machine(text);
    assert_eq!(
        (found.busy, found.steal),
        (Duration::from_millis(6300), Duration::from_millis(500))
    );
}

#[test]
fn foreign_is_what_is_neither_ours_nor_idle() {
    let before = Machine::default();
    let after = Machine {
        busy: seconds(12),
        steal: seconds(1),
    };
    let found = foreign(before, after, seconds(10), seconds(10));
    assert!((found.percent - 20.0).abs() < 1e-9 && (found.steal_percent - 10.0).abs() < 1e-9);
    assert!(found.disturbs(29.0) && !found.disturbs(31.0));
    // Ticks are coarse: ours may seem to be more than all. That is no disturbance.
    assert_eq!(foreign(before, after, seconds(13), seconds(10)).percent, 0.0);
    assert!(!Foreign::default().disturbs(0.0));
}

#[test]
fn lines_are_found_by_their_whole_name() {
    let text = "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
    assert_eq!(field(text, "voluntary_ctxt_switches"), 12);
    assert_eq!(field(text, "nonvoluntary_ctxt_switches"), 3);
    assert_eq!(field(text, "wchar"), 0);
}

#[test]
fn a_window_over_this_process_counts_what_it_does() {
    let own = Watched {
        name: "own".to_owned(),
        pid: std::process::id(),
    };
    let window = Window::open(&[own]).expect("a look");
    std::thread::sleep(Duration::from_millis(2));
    let usage = window.close().expect("a look");
    let used = usage.by_name["own"];
    assert!(used.voluntary >= 1, "{used:?}");
    assert!(usage.length >= Duration::from_millis(2));
}

#[test]
fn a_process_that_is_gone_is_an_error() {
    let gone = Watched {
        name: "gone".to_owned(),
        pid: u32::MAX / 2,
    };
    assert!(Window::open(&[gone]).is_err());
}
