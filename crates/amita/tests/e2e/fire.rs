//! Volumes move while fio writes them and checks every block, and nodes are killed in the middle of passes and where the switch is.

use crate::load::{Load, REGION_BYTES};
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, WRITES_WAIT, World, check_job, within};
use amita_harness::moves::{Moment, Moves, Sight};
use amita_harness::observe::Observer;

/// One node has fio's connection, which NBD has no other path for; the others are killed.
const NODES: usize = 4;
const ROUNDS: usize = 8;
/// Moves until a moment of one was seen: a hold lasts for milliseconds.
const TRIES: usize = 8;
/// What leaves the rest of the machine something.
const RATE: &str = "--rate_iops=1500";

/// How often, of the environment's word.
pub fn rounds(usual: usize) -> usize {
    let said = std::env::var("AMITA_FIRE_ROUNDS").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Whom to kill: the node that is at it, or another one; never the first.
fn victim(world: &World, at_it: Option<&str>, round: usize) -> usize {
    let nodes = world.cluster.nodes();
    let at_it = nodes.iter().position(|node| Some(node.name.as_str()) == at_it);
    match at_it.filter(|index| *index > 0) {
        // Three of four times whoever is at it.
        Some(index) if round % 4 < 3 => index,
        found => (1..NODES).find(|index| Some(*index) != found).expect("others"),
    }
}

/// Has the volume move to the pool where it is not, and waits for that moment; where the move was over before that was seen, once more. To where, and who is at it.
fn moves_until(world: &World, moves: &Moves, moment: Moment, load: &Load) -> (String, Sight) {
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
        if let Some(sight) = seen.expect("the move comes to it") {
            return (to.to_owned(), sight);
        }
        println!("{moment:?} of the move to {to} was over before it was seen: once more");
        within(4 * PATIENCE, "it has moved", || {
            assert!(!load.has_ended(), "fio has ended");
            moves.is_over().unwrap_or(false)
        });
    }
    panic!("{moment:?} was not seen in {TRIES} moves");
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
        let (to, sight) = moves_until(&world, &moves, moment, &load);
        let index = victim(&world, sight.mover.as_deref(), round);
        world.cluster.kill_node(index);
        struck.push((moment, index));
        println!(
            "round {round}: to {to}, at {moment:?}, seen {sight:?}: node {} is killed",
            index + 1
        );
        // Half of the moves end without it.
        let is_back_first = round / 2 % 2 == 0;
        if is_back_first {
            world.cluster.start_node(index).expect("it starts");
            world.cluster.await_node(index).expect("it serves");
        }
        within(4 * PATIENCE, "it has moved", || {
            assert!(!load.has_ended(), "fio has ended");
            moves.is_over().unwrap_or(false)
        });
        assert_eq!(moves.pool(VOLUME).expect("its pool"), to);
        if !is_back_first {
            world.cluster.start_node(index).expect("it starts");
            world.cluster.await_node(index).expect("it serves");
        }
        assert!(
            observer.await_whole(2 * PATIENCE).expect("it answers"),
            "all copies are there again"
        );
    }
    for moment in [Moment::Pass, Moment::Switch] {
        let seen = struck.iter().any(|(at, _)| *at == moment);
        assert!(seen || times < 2, "nobody was killed at {moment:?}: {struck:?}");
    }
    let passes = load.finish();
    println!("{passes} passes of fio, each of {REGION_BYTES} bytes, verified");
    // What the last of them wrote, by another gateway.
    let check = check_job("again", &world.uri(1), 0, REGION_BYTES, passes - 1);
    check.run(world.folder(), PATIENCE).expect("every block is right");
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT].concat());
}
