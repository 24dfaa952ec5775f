//! R7 in its own small model, with and without it.

use amita_model::explore::{Seen, explore};
use amita_model::space::Space;

fn print(name: &str, seen: &Seen) {
    println!(
        "{name:40} {:5} states, breaks after {} steps: {:?}",
        seen.states,
        seen.length(),
        seen.broken
    );
}

#[test]
fn r7_credits() {
    let seen = explore(Space {
        credits: true,
        free: [2, 3],
    });
    print("R7", &seen);
    assert!(seen.broken.is_empty() && seen.happened.len() == 1);
    let seen = explore(Space {
        credits: false,
        free: [2, 3],
    });
    print("R7 without credits", &seen);
    assert!(!seen.broken.is_empty());
}
