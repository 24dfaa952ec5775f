//! Disks that answer, that hang, and whose look fails.

use super::*;
use crate::inventory::tests::device;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

fn until(looks: &mut Looks, is_so: impl Fn(&Looks) -> bool) {
    while !is_so(looks) {
        std::thread::sleep(std::time::Duration::from_millis(1));
        looks.have_ended();
    }
}

#[test]
fn a_disk_that_hangs_is_looked_at_once_and_holds_up_no_other() {
    let (free, held) = channel::<()>();
    let (held, begun) = (Mutex::new(held), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&begun);
    let mut looks = Looks::by(move |path| {
        if path == Path::new("/hangs") {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = held.lock().expect("a lock").recv();
        }
        Ok(device(&path.display().to_string()))
    });
    let paths = ["/hangs", "/well"].map(PathBuf::from);
    let (hangs, well) = (&paths[0], &paths[1]);
    for _ in 0..3 {
        looks.begin(&paths);
        until(&mut looks, |looks| looks.found(well).is_ok());
        assert!(!looks.have_ended());
        assert!(looks.found(hangs).expect_err("it hangs").contains("hangs"));
    }
    assert_eq!(
        begun.load(Ordering::SeqCst),
        1,
        "one thread for a disk, not one for each time"
    );
    // It comes back: that look is done, and there are others after it.
    free.send(()).expect("somebody waits");
    until(&mut looks, |looks| looks.under_way.is_empty());
    assert_eq!(looks.found(hangs).expect("a device").name, "/hangs");
    free.send(()).expect("somebody will wait");
    looks.begin(&paths);
    until(&mut looks, |looks| looks.under_way.is_empty());
    assert!(looks.found(hangs).is_ok() && begun.load(Ordering::SeqCst) == 2);
}

#[test]
fn what_a_look_finds_that_ends_late_is_told_in_the_next_round_and_in_no_other() {
    let (free, held) = channel::<()>();
    let (held, begun) = (Mutex::new(held), AtomicU32::new(0));
    let mut looks = Looks::by(move |_| {
        let which = begun.fetch_add(1, Ordering::SeqCst) + 1;
        let _ = held.lock().expect("a lock").recv();
        Ok(device(&format!("look {which}")))
    });
    let path = PathBuf::from("/slow");
    let paths = std::slice::from_ref(&path);
    let name = |looks: &Looks| looks.found(&path).map(|found| found.name);
    looks.begin(paths);
    assert!(name(&looks).expect_err("it is held").contains("hangs"));
    free.send(()).expect("somebody waits");
    // It ends where nobody gathers. The look that follows it is held again.
    while name(&looks).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(1));
        looks.begin(paths);
    }
    assert!(!looks.have_ended());
    assert_eq!(name(&looks).expect("the late one"), "look 1");
    looks.begin(paths);
    assert!(!looks.have_ended());
    assert!(name(&looks).expect_err("it was told once").contains("hangs"));
    // What ends in time takes the place of what was late.
    free.send(()).expect("somebody waits");
    while name(&looks).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(1));
        looks.begin(paths);
    }
    assert_eq!(name(&looks).expect("the late one"), "look 2");
    free.send(()).expect("somebody waits");
    until(&mut looks, |looks| looks.under_way.is_empty());
    assert_eq!(name(&looks).expect("the one in time"), "look 3");
}

#[test]
fn a_look_that_panics_is_said_and_the_next_one_is_made() {
    let mut looks = Looks::by(|_| panic!("a disk like no other"));
    let path = PathBuf::from("/odd");
    for _ in 0..2 {
        looks.begin(std::slice::from_ref(&path));
        until(&mut looks, |looks| looks.under_way.is_empty());
        assert!(looks.found(&path).expect_err("it failed").contains("failed"));
    }
}

#[test]
fn only_the_thread_of_a_look_is_one() {
    let mut looks = Looks::by(|_| Ok(device(&is_look().to_string())));
    let path = PathBuf::from("/well");
    looks.begin(std::slice::from_ref(&path));
    until(&mut looks, |looks| looks.under_way.is_empty());
    assert_eq!(looks.found(&path).expect("a device").name, "true");
    assert!(!is_look());
}
