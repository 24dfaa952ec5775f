use super::super::shares::Shares;
use super::*;
use crate::call::KeyValue;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};

thread_local! {
    static GATHERED: Cell<u64> = const { Cell::new(0) };
}

/// Changes are looked for in the history.
pub(super) fn looks() {
    GATHERED.set(GATHERED.get() + 1);
}

const VALUE_BYTES: usize = 10_000;
const NOW: Duration = Duration::from_secs(7);

fn watcher(holder: &Arc<Holder>) -> (Watcher, mpsc::Receiver<WatchEvent>) {
    let (sender, events) = mpsc::channel(WATCH_QUEUE);
    let watcher = Watcher {
        span: Span::Prefix("/w".to_owned()),
        next: 2,
        sender,
        waits: Arc::default(),
        starved: None,
        holder: Arc::clone(holder),
        _place: holder.take(Good::Watches, 1).expect("the first"),
    };
    (watcher, events)
}

fn holder() -> Arc<Holder> {
    Shares::new().holder(None, IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Takes what is there, and is told more; how many revisions came, in their order from `next` on.
fn read(state: &State, watcher: &mut Watcher, events: &mut mpsc::Receiver<WatchEvent>, mut next: u64) -> u64 {
    while let Ok(event) = events.try_recv() {
        let WatchEvent::Changes(_, batch, _share) = event else {
            panic!("{event:?}")
        };
        for event in &batch.events {
            assert_eq!(event.revision(), next);
            next += 1;
        }
        assert!(tell(state, watcher, NOW));
    }
    next
}

#[test]
fn a_watcher_that_does_not_read_holds_little_and_misses_nothing() {
    let (mut state, holder) = (State::new(), holder());
    let (mut watcher, mut events) = watcher(&holder);
    for _ in 0..2000 {
        state
            .txn(&Call::put("/w", vec![0; VALUE_BYTES]))
            .expect("it is well formed");
        assert!(tell(&state, &mut watcher, NOW));
        let most = WATCH_QUEUE * (CATCH_UP_BYTES + 2 * VALUE_BYTES);
        assert!(holder.held(Good::Bytes) <= most, "{}", holder.held(Good::Bytes));
    }
    assert!(watcher.waits.load(Ordering::SeqCst), "it is told more when it asks");
    let next = read(&state, &mut watcher, &mut events, 2);
    assert_eq!(next, state.revision() + 1);
    assert_eq!(holder.held(Good::Bytes), 0);
}

#[test]
fn a_watcher_whose_holder_has_its_part_waits_and_misses_nothing() {
    let (mut state, holder) = (State::new(), holder());
    let (mut watcher, mut events) = watcher(&holder);
    let all = holder.take(Good::Bytes, Good::Bytes.most()).expect("all of it");
    state.txn(&Call::put("/w", "v")).expect("it is well formed");
    assert!(tell(&state, &mut watcher, NOW) && watcher.starved.is_some());
    assert!(events.try_recv().is_err());
    drop(all);
    assert!(tell(&state, &mut watcher, NOW + STARVED_PAUSE) && watcher.starved.is_none());
    assert_eq!(read(&state, &mut watcher, &mut events, 2), 3);
}

/// What it is to be told is looked for in the whole history.
#[test]
fn a_watcher_that_waits_for_bytes_costs_nothing_meanwhile() {
    let (mut state, holder) = (State::new(), holder());
    let (mut watcher, mut events) = watcher(&holder);
    let all = holder.take(Good::Bytes, Good::Bytes.most()).expect("all of it");
    for _ in 0..100 {
        state.txn(&Call::put("/other", "v")).expect("it is well formed");
    }
    state.txn(&Call::put("/w", "v")).expect("it is well formed");
    let before = GATHERED.get();
    // As many passes as others' requests make.
    for pass in 0..1000 {
        assert!(tell(&state, &mut watcher, NOW + STARVED_PAUSE * pass / 100));
        state.txn(&Call::put("/other", "v")).expect("it is well formed");
    }
    assert_eq!(
        GATHERED.get() - before,
        1,
        "nor once the pause is over, while there is no room"
    );
    drop(all);
    let late = NOW + STARVED_PAUSE * 19 / 2;
    assert!(
        tell(&state, &mut watcher, late) && events.try_recv().is_err(),
        "it is not its time yet"
    );
    assert!(tell(&state, &mut watcher, late + STARVED_PAUSE) && watcher.starved.is_none());
    let Ok(WatchEvent::Changes(_, batch, _)) = events.try_recv() else {
        panic!("nothing was told")
    };
    assert_eq!(batch.events.len(), 1);
    drop(events);
    assert!(!tell(&state, &mut watcher, late), "it has gone");
}

#[test]
fn a_watcher_that_the_history_does_not_reach_any_more_is_told_so() {
    let (mut state, holder) = (State::new(), holder());
    let (mut watcher, mut events) = watcher(&holder);
    for _ in 0..3 {
        state.txn(&Call::put("/w", "v")).expect("it is well formed");
    }
    state.compact(3).expect("it lies within the history");
    assert!(!tell(&state, &mut watcher, NOW));
    assert!(matches!(events.try_recv(), Ok(WatchEvent::Compacted(3))));
}

/// What is answered, what the history has and what a watch is told is one copy.
#[test]
fn a_value_is_held_once() {
    let mut state = State::new();
    state
        .txn(&Call::put("/w", vec![0; VALUE_BYTES]))
        .expect("it is well formed");
    let at = |value: &KeyValue| value.value.as_ptr();
    let key = at(state.get("/w").expect("it was put"));
    let reply = state.txn(&Call::prefix("/")).expect("it is well formed");
    assert_eq!(at(&reply.values(0)[0]), key);
    let batch = state.changes("/", 2).expect("it is kept").next().expect("one");
    let Event::Put(value) = &batch.events[0] else {
        panic!("{batch:?}")
    };
    assert_eq!(at(value), key);
    assert_eq!(crate::wire::KeyValue::from(value).value.as_ptr(), key);
}
