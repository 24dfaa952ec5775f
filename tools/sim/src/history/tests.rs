use super::{History, Kind};
use crate::stamp::{SECTORS_PER_BLOCK, Sector, Stamp};
use amita_reactor::Time;
use std::collections::BTreeMap;

/// Gateway 0 raises at 10, gateway 1 at 30; a write that lay at its host until `sent` is asked of gateway 0 and never
/// answered, and what gateway 1 has acknowledged shows what it took over.
fn taken(sent: u64) -> bool {
    let mut history = History::new();
    let write = history.invoke(Time(5), 1, Kind::Write, Sector(0), 8);
    history.asked_of(Time(sent), write, 0);
    let later = history.invoke(Time(6), 2, Kind::Write, Sector(0), 8);
    history.asked_of(Time(40), later, 1);
    history.complete(Time(50), later, Vec::new());
    let raised = BTreeMap::from([(0, vec![(Time(10), 0), (Time(30), 1)])]);
    let known = history.take_over(&raised, |_| (0, 0));
    assert_eq!(known > 0, history.get(write).taken_from.is_some());
    known > 0
}

#[test]
fn what_a_host_sends_after_a_volume_was_taken_is_not_taken_with_it() {
    assert!(taken(20), "its gateway lost the volume while it had the write");
    assert!(!taken(35), "until then it lay at the host");
}

#[test]
fn what_was_asked_before_its_gateway_had_the_volume_shows_nothing() {
    let mut history = History::new();
    let write = history.invoke(Time(5), 1, Kind::Write, Sector(0), 8);
    history.asked_of(Time(20), write, 0);
    let later = history.invoke(Time(6), 2, Kind::Write, Sector(0), 8);
    // By another one on behalf of which it passes the question on.
    history.asked_of(Time(25), later, 1);
    history.complete(Time(50), later, Vec::new());
    let raised = BTreeMap::from([(0, vec![(Time(10), 0), (Time(30), 1)])]);
    assert_eq!(history.take_over(&raised, |_| (0, 0)), 0);
}

/// Blocks that no host could read in the end are judged by this alone, and few seeds have any.
#[test]
fn a_block_holds_what_was_acknowledged_or_what_may_have_been_done_after_it() {
    let mut history = History::new();
    let mut write = |answered: bool| {
        let id = history.invoke(Time(1), 1, Kind::Write, Sector(0), SECTORS_PER_BLOCK as u32);
        if answered {
            history.complete(Time(2), id, Vec::new());
        }
        [id.stamp(); SECTORS_PER_BLOCK]
    };
    let (old, kept, unanswered) = (write(true), write(true), write(false));
    assert!(history.could_hold(0, &kept).is_ok());
    assert!(history.could_hold(0, &unanswered).is_ok());
    assert!(history.could_hold(0, &old).is_err(), "overwritten");
    assert!(
        history.could_hold(0, &[Stamp::ZERO; SECTORS_PER_BLOCK]).is_err(),
        "lost"
    );
    let mut torn = kept;
    torn[0] = old[0];
    assert!(history.could_hold(0, &torn).is_err(), "torn");
}

/// Two blocks; the second write was asked for when the first one was acknowledged.
#[test]
fn a_cut_has_no_write_without_those_that_were_acknowledged_before_it() {
    let mut history = History::new();
    let before = history.events();
    let mut write = |block: u64| {
        let first = Sector(block * SECTORS_PER_BLOCK as u64);
        let id = history.invoke(Time(1), 1, Kind::Write, first, SECTORS_PER_BLOCK as u32);
        history.complete(Time(2), id, Vec::new());
        vec![id.stamp(); SECTORS_PER_BLOCK]
    };
    let (first, second) = (write(0), write(1));
    let between = (before, history.events());
    let zeros = vec![Stamp::ZERO; SECTORS_PER_BLOCK];
    let cut = |one: &Vec<Stamp>, other: &Vec<Stamp>, between| {
        let held = BTreeMap::from([(0, one.clone()), (1, other.clone())]);
        history.check_cut(&held, between)
    };
    assert_eq!(cut(&zeros, &zeros, between), Ok(()), "before both");
    assert_eq!(cut(&first, &zeros, between), Ok(()), "between them");
    assert_eq!(cut(&first, &second, between), Ok(()), "behind both");
    assert!(cut(&zeros, &second, between).is_err(), "the second without the first");
    let late = (history.events(), history.events());
    assert!(
        cut(&first, &zeros, late).is_err(),
        "what was acknowledged before it was asked for"
    );
    assert_eq!(cut(&first, &second, late), Ok(()));
}

/// Under way when it was taken: hosts may see that later than the snapshot has it, or never.
#[test]
fn what_was_under_way_may_be_in_a_cut_or_not() {
    let mut history = History::new();
    let sectors = SECTORS_PER_BLOCK as u32;
    let id = history.invoke(Time(1), 1, Kind::Write, Sector(0), sectors);
    let at = (history.events(), history.events());
    let read = history.invoke(Time(2), 2, Kind::Read, Sector(0), sectors);
    history.complete(Time(3), read, vec![Stamp::ZERO; SECTORS_PER_BLOCK]);
    let cut = |stamp, between| history.check_cut(&BTreeMap::from([(0, vec![stamp; SECTORS_PER_BLOCK])]), between);
    assert_eq!(cut(id.stamp(), at), Ok(()));
    assert_eq!(cut(Stamp::ZERO, at), Ok(()));
    assert!(cut(id.stamp(), (0, 0)).is_err(), "before it was asked for");
    assert!(cut(Stamp(7), at).is_err(), "from nowhere");
}

/// A host has seen it: then it is there.
#[test]
fn what_was_read_before_a_cut_is_in_it() {
    let mut history = History::new();
    let sectors = SECTORS_PER_BLOCK as u32;
    let id = history.invoke(Time(1), 1, Kind::Write, Sector(0), sectors);
    let read = history.invoke(Time(2), 2, Kind::Read, Sector(0), sectors);
    history.complete(Time(3), read, vec![id.stamp(); SECTORS_PER_BLOCK]);
    let at = (history.events(), history.events());
    let cut = |stamp| history.check_cut(&BTreeMap::from([(0, vec![stamp; SECTORS_PER_BLOCK])]), at);
    assert_eq!(cut(id.stamp()), Ok(()));
    assert!(cut(Stamp::ZERO).is_err());
}

/// A write that is not answered, what the target says of it, and who sees it when.
fn seen_late(says: impl Fn(&mut History, crate::history::OperationId)) -> bool {
    let mut history = History::new();
    let write = history.invoke(Time(1), 1, Kind::Write, Sector(0), 8);
    says(&mut history, write);
    let mut read = |stamp: Stamp| {
        let id = history.invoke(Time(2), 2, Kind::Read, Sector(0), 8);
        history.complete(Time(3), id, vec![stamp; 8]);
    };
    read(Stamp::ZERO);
    read(write.stamp());
    history.check().is_ok()
}

#[test]
fn what_the_target_has_said_to_be_over_takes_effect_before_that_or_never() {
    assert!(seen_late(|_, _| {}), "nobody has said anything");
    assert!(!seen_late(|history, write| history.over(write)));
    assert!(
        seen_late(|history, write| {
            history.sent_again(Time(1), write, true);
            history.over(write);
        }),
        "what was sent by another way may still come"
    );
    let fence = |history: &mut History, write| {
        history.sent_again(Time(1), write, true);
        history.fence(1);
    };
    assert!(!seen_late(fence), "of a host that was fenced off, by no way");
    let another = |history: &mut History, _| {
        history.fence(2);
    };
    assert!(seen_late(another), "of another host");
}

#[test]
fn what_was_done_before_a_host_was_fenced_off_may_be_answered_later() {
    let mut history = History::new();
    let write = history.invoke(Time(1), 1, Kind::Write, Sector(0), 8);
    history.fence(1);
    let read = history.invoke(Time(2), 2, Kind::Read, Sector(0), 8);
    history.complete(Time(3), read, vec![Stamp::ZERO; 8]);
    assert!(history.check().is_ok());
    history.complete(Time(4), write, Vec::new());
    assert!(
        history.check().is_err(),
        "it was done before the read, which has not seen it"
    );
}

#[test]
fn what_is_asked_for_by_a_host_that_is_fenced_off_is_never_seen() {
    let mut history = History::new();
    let event = history.fence(1);
    let write = history.invoke(Time(2), 1, Kind::Write, Sector(0), 8);
    history.asked_when_fenced(write, event);
    assert!(history.is_barred(write) && history.check().is_ok());
    let read = history.invoke(Time(2), 2, Kind::Read, Sector(0), 8);
    history.complete(Time(3), read, vec![write.stamp(); 8]);
    assert!(history.check().is_err());
}
