//! How a process keeps its identity, and what it says when it cannot.

use super::super::upkeep::Duties;
use super::hostile::Said;
use super::*;

#[test]
fn a_process_keeps_its_identity() {
    let world = World::new();
    let live = world.joined("n1");
    let mut duties = Duties::new(live.clone(), Some(world.client.clone()));
    let begun = Instant::now();
    let serial = || live.current().serial().clone();
    let first = serial();
    duties.look(begun);
    world.clock.set(NOW.after(2 * DAY));
    duties.look(begun + 2 * DAY);
    assert_eq!(serial(), first, "not due");
    // Half of its life, and the spread.
    world.clock.set(NOW.after(4 * DAY));
    duties.look(begun + 4 * DAY);
    assert_ne!(serial(), first);
    assert_eq!(live.current().not_after(), NOW.after(4 * DAY + LEAF_LIFE));
    // The list comes with the next look, half a minute later.
    world.authority.rotate(Duration::ZERO).unwrap();
    duties.look(begun + 4 * DAY);
    assert_eq!(live.current().trust().roots().len(), 1);
    duties.look(begun + 4 * DAY + Duration::from_secs(30));
    assert_eq!(live.current().trust().roots().len(), 2);
    world.clock.set(NOW.after(8 * DAY));
    duties.look(begun + 8 * DAY);
    world.authority.finish(false).unwrap();
    duties.look(begun + 8 * DAY + Duration::from_secs(30));
    assert_eq!(live.current().trust().roots().len(), 1);
    live.judge(live.current().chain(), Usage::Client).unwrap();
}

/// While the authority is away everything goes on, and the renewal follows when it is back.
#[test]
fn a_renewal_waits_for_the_authority() {
    let world = World::new();
    let live = world.joined("n1");
    let address = world.server.address();
    let mut duties = Duties::new(live.clone(), Some(world.client.clone()));
    let begun = Instant::now();
    drop(world.server);
    let first = live.current().serial().clone();
    world.clock.set(NOW.after(5 * DAY));
    duties.look(begun);
    assert_eq!(*live.current().serial(), first);
    let back = AuthorityServer::start(world.authority.clone(), address).unwrap();
    duties.look(begun);
    assert_eq!(*live.current().serial(), first, "it has just tried");
    duties.look(begun + Duration::from_secs(60));
    assert_ne!(*live.current().serial(), first);
    drop(back);
}

/// The clock was a day ahead for a moment: what is revoked then is heard of half a minute later all the same, and not a day.
#[test]
fn a_clock_that_is_set_back_keeps_nobody_from_the_list() {
    let world = World::new();
    let (one, two) = (world.joined("n1"), world.joined("n2"));
    let mut duties = Duties::new(one.clone(), Some(world.client.clone()));
    let begun = Instant::now();
    world.clock.set(NOW.after(DAY));
    duties.look(begun);
    world.clock.set(NOW);
    world.authority.revoke("n2").unwrap();
    duties.look(begun + Duration::from_secs(30));
    assert_eq!(one.judge(two.current().chain(), Usage::Client), Err(Refusal::Revoked));
}

/// Who hears nothing of the authority for long says so more than once.
#[test]
fn a_fault_that_stays_is_told_again() {
    let world = World::new();
    let live = world.joined("n1");
    let said = Said::listen();
    let address = world.server.address();
    drop(world.server);
    let mut duties = Duties::new(live, Some(world.client));
    let begun = Instant::now();
    let of_it = || said.with(&format!("the authority at {address} cannot be reached"));
    for half_minutes in 0..20 {
        duties.look(begun + half_minutes * Duration::from_secs(30));
    }
    assert_eq!(of_it().len(), 1, "{:?}", of_it());
    duties.look(begun + Duration::from_secs(600));
    assert_eq!(of_it().len(), 2, "{:?}", of_it());
    assert!(
        of_it()[1].contains("nobody hears here what was revoked, for 10 minutes now"),
        "{:?}",
        of_it()
    );
}
