//! Histories of nodes whose network is sick.

use super::{Scenario, history, plant};
use crate::cluster::Setup;

/// They live for minutes: few seeds are enough.
const SEEDS: u64 = 12;

pub fn all() -> Vec<Scenario> {
    let scenario = |name, story, setup, broken| history(name, story, setup, SEEDS, broken);
    let survived = |name, story, setup| Scenario {
        broken: None,
        ..scenario(name, story, setup, |_| {})
    };
    vec![
        scenario(
            "R10: a node whose links are lossy is isolated, and comes back",
            "M1's cable loses some of a hundred packets, one way or both: it leaves, and is there again when it is well.",
            Setup::sick_lossy,
            plant!(plants => plants.coordinator = plants.coordinator.with(amita_control::Fault::NeverBack)),
        ),
        scenario(
            "R10: nobody is isolated who is needed",
            "M1's cable loses packets, and without M1 one copy would be left: the operator is told, and M1 stays.",
            Setup::sick_and_needed,
            plant!(plants => plants.coordinator = plants.coordinator.with(amita_control::Fault::IsolateTheNeeded)),
        ),
        scenario(
            "R10: a policy that isolates nobody isolates nobody",
            "M1's links are bad, and the operator wants to be told of it at most, or M1 to be avoided.",
            Setup::sick_and_tolerated,
            plant!(plants => plants.coordinator = plants.coordinator.with(amita_control::Fault::IsolateByAnyPolicy)),
        ),
        survived(
            "R10: who rests and is well comes back before its time",
            "M1's links are late for some minutes, and it is to rest for longer: nodes find it well before that.",
            Setup::sick_late,
        ),
        survived(
            "R10: a node that reaches nobody and lives stays away",
            "M1 reaches the metadata and no other node: it is listed again and again, unless it is isolated.",
            Setup::sick_cut,
        ),
        survived(
            "R10: a network that is well is blamed for nothing",
            "Nodes die and stand still, connections break, packets are lost for seconds: that is nobody's cable.",
            Setup::well_networks,
        ),
        scenario(
            "R12: one network's refusal is no death",
            "M1's first network is cut, or refuses for it while the second one is late to answer: it lives, and nobody takes it for dead.",
            Setup::first_cut,
            plant!(plants => plants.fabric = plants.fabric.with(amita_fabric::Fault::OneRefusal)),
        ),
        scenario(
            "R10: who has a second network leaves the first one",
            "M1's first cable loses packets, or is late: connections go by the second one, leave none, and come back in the end.",
            Setup::first_lossy,
            plant!(plants => plants.fabric = plants.fabric.with(amita_fabric::Fault::KeepLeft)),
        ),
        survived(
            "R10: a first network that stays bad is tried again, and left again",
            "M1's first cable loses packets, or is late, for longer than it rests after it was left: it rests for longer then.",
            Setup::first_lasting,
        ),
        survived(
            "R10: both networks of a node are sick",
            "There is nowhere to go at first, and nothing better then.",
            Setup::both_sick,
        ),
        survived(
            "R10: links by two networks are bad at random",
            "The same as by one, by one or both.",
            Setup::two_at_random,
        ),
        survived(
            "R10: links are bad at random",
            "Several nodes and links are bad at once or one after the other, while coordinators die and policies change.",
            Setup::sick_at_random,
        ),
    ]
}
