//! Compare-and-set that is late, of unknown outcome, or on metadata that were put back.

use amita_model::explore::Seen;
use amita_model::graph::Graph;
use amita_model::records::{COUNTED, Compare, LATE, Records, SEEN, WENT_ON};

fn run(name: &str, model: Records) -> Seen {
    let seen = Graph::until_broken(model).seen();
    println!(
        "{name:44} {:7} states, {:.1?} {:?}",
        seen.states, seen.time, seen.broken
    );
    seen
}

fn late() -> Records {
    Records {
        compare: Compare::Revision,
        reads_back: true,
        evictions: 3,
        losses: 2,
        others: 0,
        restored: false,
    }
}

fn restored(compare: Compare) -> Records {
    Records {
        compare,
        losses: 1,
        restored: true,
        ..late()
    }
}

#[test]
fn late_calls_and_unknown_outcomes_do_no_harm() {
    let seen = run("late and unknown", late());
    assert!(seen.broken.is_empty());
    assert_eq!(seen.happened, [LATE]);
    let trusting = Records {
        reads_back: false,
        ..late()
    };
    let seen = run("an unknown outcome is taken for a success", trusting);
    assert_eq!((seen.broken[0].0, seen.length()), (COUNTED, 2));
}

#[test]
fn revisions_that_are_given_out_again_are_not_enough() {
    let by_revision = run("restored: by revision", restored(Compare::Revision));
    assert_eq!((by_revision.broken[0].0, by_revision.length()), (SEEN, 9));
    let by_epoch = run("restored: by revision and epoch", restored(Compare::Epoch));
    assert_eq!((by_epoch.broken[0].0, by_epoch.length()), (SEEN, 9));
}

#[test]
fn what_was_read_is_compared_as_a_whole() {
    let seen = run("restored: by all that was read", restored(Compare::Value));
    assert!(seen.broken.is_empty());
    assert_eq!(seen.happened, [LATE, WENT_ON]);
}
