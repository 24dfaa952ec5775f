//! What goes on by itself: from every state that can be reached, fair steps alone lead to a goal
//! (`amita_model::graph`).

use amita_model::config::{Rule, Size};
use amita_model::graph::Graph;
use amita_model::model::Action;
use amita_model::silence::Silence;
use amita_model::sizes;
use amita_model::state::{Replication, State};

fn stuck(
    name: &str,
    size: &Size,
    off: &[Rule],
    goal: impl Fn(&Replication, &State) -> bool,
    fair: impl Fn(&Replication, &State, &Action) -> bool,
) -> Option<usize> {
    let model = Replication::new(size.clone(), off);
    let graph = Graph::of(Replication::new(size.clone(), off));
    let stuck = graph.stuck(
        |s: &State| goal(&model, s),
        |s: &State, action: &Action| fair(&model, s, action),
    );
    let seen = graph.seen();
    assert!(seen.broken.is_empty());
    println!(
        "{name:44} {:8} states, {:.1?}; never: {stuck:?}",
        seen.states, seen.time
    );
    stuck.map(|way| way.len())
}

fn quiet(model: &Replication, s: &State) -> bool {
    model.is_quiet(s)
}

fn fair(model: &Replication, _: &State, action: &Action) -> bool {
    model.is_fair(action)
}

/// At `min_copies` nobody may be evicted: a member that cannot merge a write has to be rolled forward.
#[test]
fn a_part_of_a_rotten_block_hangs_nothing_for_good() {
    let rotten = sizes::rotten();
    assert_eq!(stuck("before", &rotten, &[Rule::RotHeals], quiet, fair), Some(2));
    assert_eq!(stuck("rolled forward", &rotten, &[], quiet, fair), None);
    let twice = sizes::rotten_twice();
    assert_eq!(stuck("rotten everywhere", &twice, &[], quiet, fair), None);
    let alone = stuck(
        "damaged entries do not travel",
        &twice,
        &[Rule::RotTravels],
        quiet,
        fair,
    );
    assert_eq!(alone, Some(3));
}

/// A store comes back, and goes on being compared until nothing differs: an entry that is left alone and counts as a
/// difference must be one that changes by itself.
#[test]
fn a_store_that_comes_back_is_in_sync_some_time() {
    let size = Size {
        min_copies: 1,
        additions: 1,
        crashes: 1,
        writes: 2,
        rots: 0,
        window: 1,
        reads: 0,
        starts: vec![sizes::behind()],
        ..sizes::rotten()
    };
    let back = |_: &Replication, s: &State| s.stores.iter().all(|store| !store.syncing);
    assert_eq!(stuck("comes back", &size, &[], back, fair), None);
    let equal = stuck(
        "equal versions left alone",
        &size,
        &[Rule::MendEqualVersion],
        back,
        fair,
    );
    assert!(equal.is_some());
}

/// A silent store is evicted by the sequencer that waits for it, and the write ends. (Where the others were evicted
/// before, it waits by right.)
#[test]
fn a_silent_store_holds_nothing_up_for_good() {
    let size = Size {
        silent: true,
        ..sizes::without_coordinator()
    };
    let goal = |model: &Replication, s: &State| {
        model.is_quiet(s) || s.stores.iter().filter(|store| store.in_sync).all(|store| store.silent)
    };
    let fair = |model: &Replication, s: &State, action: &Action| match action {
        Action::EvictBy(_, m) => s.stores[*m].silent,
        action => model.is_fair(action),
    };
    assert_eq!(stuck("a silent store", &size, &[], goal, fair), None);
    assert!(stuck("no sequencer evicts", &size, &[Rule::SequencerEvicts], goal, fair).is_some());
}

/// A store that renews leases from memory while its disk hangs: only the age of what waits for the disk tells.
#[test]
fn a_disk_that_hangs_is_evicted_though_its_store_answers() {
    let stuck = |by_oldest, reads| {
        let graph = Graph::of(Silence { by_oldest, reads });
        let seen = graph.seen();
        assert!(seen.broken.is_empty() && seen.happened.len() == 1);
        graph.stuck(Silence::is_quiet, |_, action| Silence::is_fair(action))
    };
    assert_eq!(
        stuck(false, false),
        None,
        "by what is heard, of a store that is not read"
    );
    let read = stuck(false, true).expect("what is heard hides what waits");
    println!("by what is heard, while it is read: {read:?}");
    assert_eq!(read.len(), 2);
    assert_eq!(stuck(true, true), None, "by the oldest request");
    assert_eq!(
        stuck(true, false),
        None,
        "by the oldest request, of a store that is not read"
    );
}

/// Whoever takes over has the chunk open some time, with all that was under way ended.
#[test]
fn a_takeover_ends() {
    let size = Size {
        stores: 2,
        kinds: vec![sizes::rotten().kinds[0]],
        writes: 1,
        reads: 1,
        crashes: 1,
        evictions: 1,
        ..Size::default()
    };
    let open = |model: &Replication, s: &State| {
        let mut owners = (0..model.sequencers()).filter(|q| model.generation(*q) == s.generation[0]);
        model.is_quiet(s) && owners.any(|q| s.sequencers[q].chunks[0].open)
    };
    assert_eq!(stuck("a takeover", &size, &[], open, fair), None);
    let endless = |model: &Replication, _: &State, action: &Action| {
        model.is_fair(action) && !matches!(action, Action::Expire(..))
    };
    assert!(stuck("leases that do not end", &size, &[], open, endless).is_some());
}
