//! Volumes move while fio writes them and checks every block, and nodes are killed in the middle of passes and where the switch is.

use crate::load::{Load, REGION_BYTES};
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, WRITES_WAIT, World, check_job, within};
use amita_harness::moves::{Moment, Moves};
use amita_harness::observe::Observer;

/// One node has fio's connection, which NBD has no other path for; the others are killed.
const NODES: usize = 4;
const ROUNDS: usize = 8;
/// Moves until a node was killed at a moment of one: a hold lasts for milliseconds, and one of four is the first node's.
const TRIES: usize = 16;
/// What leaves the rest of the machine something.
const RATE: &str = "--rate_iops=1500";

/// How often, of the environment's word.
pub fn rounds(usual: usize) -> usize {
    let said = std::env::var("AMITA_FIRE_ROUNDS").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Whom to kill, and is it who carries the move out? Never the first one: none where that is at it, and whoever is at it is to be killed.
fn victim(world: &World, mover: Option<&str>, round: usize) -> Option<(usize, bool)> {
    let mut nodes = world.cluster.nodes().iter();
    let mover = nodes.position(|node| Some(node.name.as_str()) == mover);
    match round % 4 < 3 {
        // Three of four times.
        true => mover.filter(|index| *index > 0).map(|index| (index, true)),
        false => (1..NODES)
            .find(|index| Some(*index) != mover)
            .map(|index| (index, false)),
    }
}

fn await_moved(moves: &Moves, to: &str, load: &Load) {
    within(4 * PATIENCE, "the move is over", || {
        assert!(!load.has_ended(), "fio has ended");
        moves.is_over().unwrap_or(false)
    });
    assert_eq!(moves.pool(VOLUME).expect("its pool"), to, "it came to nothing");
}

fn bring_back(world: &mut World, node: usize) {
    world.cluster.start_node(node).expect("it starts");
    world.cluster.await_node(node).expect("it serves");
}

fn await_whole(observer: &Observer) {
    assert!(
        observer.await_whole(2 * PATIENCE).expect("it answers"),
        "all copies are there again"
    );
}

/// Has the volume move to the pool where it is not, and kills a node at that moment; where that cannot be done before the switch, once more. To where, which
/// node, and did it carry the move out?
fn strike(
    world: &mut World,
    (moves, observer): (&Moves, &Observer),
    (moment, round): (Moment, usize),
    load: &Load,
) -> (&'static str, usize, bool) {
    // In whose middle somebody is to be killed, that takes its time.
    let rate = if moment == Moment::Pass { "4M" } else { "1G" };
    for _ in 0..TRIES {
        let to = match moves.pool(VOLUME).expect("its pool").as_str() {
            "other" => "demo",
            _ => "other",
        };
        world.amita_done(&[
            "volume",
            "migrate",
            VOLUME,
            "--pool",
            to,
            "--limit-rate",
            rate,
            "--no-wait",
        ]);
        let seen = moves.await_moment(VOLUME, moment, PATIENCE);
        let sight = seen.expect("the move comes to it");
        let mover = sight.as_ref().and_then(|sight| sight.mover.as_deref());
        let found = sight.as_ref().and_then(|_| victim(world, mover, round));
        if let Some((index, is_mover)) = found {
            let is_in_time = moves.strike(&mut world.cluster, index).expect("it is killed");
            println!(
                "round {round}: to {to}, at {moment:?}, seen {sight:?}: node {} is killed",
                index + 1
            );
            if is_in_time {
                return (to, index, is_mover);
            }
            bring_back(world, index);
        }
        println!("nobody was killed at {moment:?} of the move to {to} who was to be: once more");
        await_moved(moves, to, load);
        await_whole(observer);
    }
    panic!("nobody was killed at {moment:?} in {TRIES} moves");
}

#[test]
#[ignore = "minutes of moves under fio: scripts/soak runs it"]
fn a_volume_moves_under_fio_by_nbd_while_nodes_are_killed() {
    let mut world = World::of(NODES);
    world.amita_done(&["pool", "create", "other", "--copies", "3"]);
    let moves = Moves::of(&world.cluster).expect("the metadata");
    let observer = Observer::of(&world.cluster).expect("the metadata");
    let load = Load::start(&world, 0, Some(RATE));
    let (times, mut struck) = (rounds(ROUNDS), Vec::new());
    for round in 0..times {
        let moment = [Moment::Pass, Moment::Switch][round % 2];
        let (to, index, is_mover) = strike(&mut world, (&moves, &observer), (moment, round), &load);
        struck.push((moment, is_mover));
        // Half of the moves end without it.
        let is_back_first = round / 2 % 2 == 0;
        if is_back_first {
            bring_back(&mut world, index);
        }
        await_moved(&moves, to, &load);
        if !is_back_first {
            bring_back(&mut world, index);
        }
        await_whole(&observer);
    }
    for moment in [Moment::Pass, Moment::Switch] {
        let is_struck = struck.contains(&(moment, true));
        assert!(
            is_struck || times < 2,
            "whoever was at it was not killed at {moment:?}: {struck:?}"
        );
    }
    let passes = load.finish();
    println!("{passes} passes of fio, each of {REGION_BYTES} bytes, verified");
    // What the last of them wrote, by another gateway.
    let check = check_job("again", &world.uri(1), 0, REGION_BYTES, passes - 1);
    check.run(world.folder(), PATIENCE).expect("every block is right");
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT].concat());
}
