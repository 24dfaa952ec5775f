//! What the cores of one gateway say to one another, in any order that their ways allow.

use amita_model::graph::Graph;
use amita_model::handover::{ENDED, HandOver, RELEASED};
use amita_model::shards::{BACK, LOST, Shards};

fn hand_over(numbered: bool) -> HandOver {
    HandOver {
        numbered,
        asks: 2,
        pieces: 2,
    }
}

/// A core has left, and says so when the directory has given up already; that word counts for the next attempt, while
/// the core works again.
#[test]
fn a_late_word_of_an_earlier_attempt_gives_leases_back() {
    let seen = Graph::until_broken(hand_over(false)).seen();
    println!("attempts without numbers: {} states, {:?}", seen.states, seen.broken);
    assert_eq!(seen.broken[0].0, ENDED);
    assert_eq!(seen.length(), 10);
}

#[test]
fn numbered_attempts_hold() {
    let graph = Graph::of(HandOver {
        asks: 3,
        ..hand_over(true)
    });
    let seen = graph.seen();
    println!(
        "numbered attempts: {} states, {} steps tried, {:.1?}",
        seen.states, seen.steps, seen.time
    );
    assert!(seen.broken.is_empty());
    assert_eq!(seen.happened, [RELEASED]);
    let stuck = graph.stuck(HandOver::is_settled, |_, action| HandOver::is_fair(action));
    assert_eq!(stuck, None, "a hand-over ends, well or not, on every core");
    // Nothing is settled while the directory waits for a core that never says anything.
    let stuck = graph.stuck(HandOver::is_settled, |_, action| {
        use amita_model::handover::Action::{GiveUp, Say};
        HandOver::is_fair(action) && !matches!(action, GiveUp | Say(_))
    });
    assert!(stuck.is_some());
}

fn shards() -> Shards {
    Shards {
        stops_older: false,
        remembers: false,
        one_sender: false,
        takeovers: 2,
        pieces: 1,
    }
}

fn shortest(name: &str, rules: Shards) -> (Option<usize>, Option<usize>) {
    let graph = Graph::of(rules);
    let seen = graph.seen();
    assert!(seen.broken.is_empty());
    assert_eq!(seen.happened, [LOST, BACK]);
    let fair = Shards::is_fair;
    let unended = graph.stuck(Shards::is_idle, fair);
    let unlike = graph.stuck(Shards::agrees, fair);
    println!(
        "{name:34} {:7} states, {:.1?}; I/O that never ends: {unended:?}; cores that differ for good: {unlike:?}",
        seen.states, seen.time
    );
    (unended.map(|way| way.len()), unlike.map(|way| way.len()))
}

/// Two senders: the order to make the next sequencer overtakes the order to drop the last one, or the other way round.
#[test]
fn orders_of_two_senders_cross() {
    assert_eq!(shortest("as it was", shards()), (Some(6), Some(9)));
}

#[test]
fn orders_that_cross_do_no_harm() {
    let stops = Shards {
        stops_older: true,
        ..shards()
    };
    assert_eq!(shortest("stops the older one", stops), (None, Some(9)));
    let both = Shards {
        remembers: true,
        ..stops
    };
    assert_eq!(shortest("and remembers what was dropped", both), (None, None));
    let one = Shards {
        one_sender: true,
        ..shards()
    };
    assert_eq!(shortest("one sender", one), (None, None));
}
