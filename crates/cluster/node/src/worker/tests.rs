use super::*;
use amita_reactor::Pool;
use amita_reactor::driver::Driver as _;
use amita_reactor::uring::UringDriver;
use std::net::IpAddr;
use std::time::Duration;

const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn desk(worker: &Worker) -> (Desk, Receiver<ToCore>, UringDriver) {
    let driver = UringDriver::new(amita_reactor::uring::UringConfig::default(), Pool::heap()).unwrap();
    let (sender, inbox) = channel();
    (worker.orders().desk(sender, driver.waker()), inbox, driver)
}

fn heard(inbox: &Receiver<ToCore>) -> (FrontId, u64, Option<Computed>) {
    match inbox.recv().unwrap() {
        ToCore::Computed { front, tag, result } => (front, tag, result),
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_computes_on_a_thread_of_its_own_and_tells_the_core() {
    let worker = Worker::start().unwrap();
    let (desk, inbox, _driver) = desk(&worker);
    let mut kept = Vec::new();
    for tag in 0..20 {
        let (computation, wanted) =
            Computation::new(SOURCE, Duration::from_micros(500), || std::thread::current().id());
        desk.compute(FrontId(tag + 100), tag, computation);
        kept.push(wanted);
    }
    for tag in 0..20 {
        let (front, seen, result) = heard(&inbox);
        assert_eq!((front, seen), (FrontId(tag + 100), tag), "of one source in order");
        let thread = result.unwrap().downcast::<std::thread::ThreadId>().unwrap();
        assert_ne!(*thread, std::thread::current().id());
    }
}

#[test]
fn what_has_no_room_is_refused_at_once() {
    let worker = Worker::start().unwrap();
    let (desk, inbox, _driver) = desk(&worker);
    // The thread stands still until it is told to go on. It says when it does: before, it may take in more orders.
    let (go_on, held) = channel::<()>();
    let (begun, stands) = channel();
    let (first, _first) = Computation::new(SOURCE, Duration::from_micros(500), move || {
        begun.send(()).unwrap();
        held.recv().is_err()
    });
    desk.compute(FrontId(1), 0, first);
    stands.recv().unwrap();
    let mut kept = Vec::new();
    for tag in 1..=MAX_WAITING as u64 + 1 {
        let (computation, wanted) = Computation::new(SOURCE, Duration::from_micros(500), || ());
        desk.compute(FrontId(1), tag, computation);
        kept.push(wanted);
    }
    let (_, tag, result) = heard(&inbox);
    assert_eq!((tag, result.is_none()), (MAX_WAITING as u64 + 1, true));
    drop(go_on);
    assert!(heard(&inbox).2.is_some());
    // Those that wait are more than one source may have.
    let refused = (0..MAX_WAITING - schedule::MAX_WAITING_OF_SOURCE).filter(|_| heard(&inbox).2.is_none());
    assert_eq!(refused.count(), MAX_WAITING - schedule::MAX_WAITING_OF_SOURCE);
    drop(kept);
}

#[test]
fn it_stops_with_its_orders_undone() {
    let worker = Worker::start().unwrap();
    let (desk, inbox, _driver) = desk(&worker);
    let (computation, _wanted) = Computation::new(SOURCE, Duration::from_secs(3600), || ());
    desk.compute(FrontId(1), 0, computation);
    assert!(heard(&inbox).2.is_some());
    let (second, _second) = Computation::new(SOURCE, Duration::from_micros(1), || ());
    desk.compute(FrontId(1), 1, second);
    drop(worker);
    assert!(inbox.try_recv().is_err(), "its source has used up an hour");
}
