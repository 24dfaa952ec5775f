use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Long enough for what does not hang, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);

fn text(value: &str) -> Text {
    Ok(Zeroizing::new(value.to_owned()))
}

fn hangs(found: &Text) -> bool {
    matches!(found, Err(KeyFileError::Hangs { .. }))
}

/// Reads what hangs until the sender is dropped, and counts how often that was tried.
fn hung(path: &Path, count: &Arc<AtomicUsize>, until: Receiver<()>) -> Text {
    let count = Arc::clone(count);
    within(path, Duration::from_millis(50), move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        let _ = until.recv();
        text("late")
    })
}

#[test]
fn a_read_that_hangs_is_one_and_keeps_nobody_waiting() {
    let path = Path::new("/tests/hangs");
    let (free, until) = channel();
    let count = Arc::new(AtomicUsize::new(0));
    assert!(hangs(&hung(path, &count, until)));
    for _ in 0..100 {
        let (_never, until) = channel();
        assert!(hangs(&hung(path, &count, until)), "it is known to hang");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1, "there is one thread for it");
    let other = within(Path::new("/tests/answers"), PATIENCE, |_| text("there"));
    assert_eq!(other.unwrap().as_str(), "there", "another file comes");
    // Its file system is back.
    drop(free);
    let began = Instant::now();
    loop {
        match within(path, PATIENCE, |_| text("back")) {
            Ok(found) => break assert_eq!(found.as_str(), "back"),
            Err(why) => assert!(hangs(&Err(why)) && began.elapsed() < PATIENCE),
        }
    }
}

#[test]
fn who_comes_while_it_is_read_waits_for_that_and_reads_it_again() {
    let path = Path::new("/tests/slow");
    let (free, until) = channel::<()>();
    let (began, begins) = channel();
    let first = std::thread::spawn(move || {
        within(path, PATIENCE, move |_| {
            began.send(()).unwrap();
            let _ = until.recv();
            text("first")
        })
    });
    begins.recv().unwrap();
    let second = std::thread::spawn(move || within(path, PATIENCE, |_| text("second")));
    drop(free);
    assert_eq!(first.join().unwrap().unwrap().as_str(), "first");
    assert_eq!(second.join().unwrap().unwrap().as_str(), "second");
}

#[test]
fn a_reader_that_dies_holds_nothing() {
    let path = Path::new("/tests/dies");
    let died = within(path, PATIENCE, |_| std::panic::resume_unwind(Box::new(())));
    assert!(died.is_err());
    assert_eq!(within(path, PATIENCE, |_| text("there")).unwrap().as_str(), "there");
}
