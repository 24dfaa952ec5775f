//! The power fails after every operation of a recorded run, with every subset of the writes that were not surely
//! durable (all of them where they are few, random ones where they are many), whole or torn at 512 bytes. Each time
//! the store mounts and holds everything that was acknowledged, block for block.

mod common;

use amita_cluster::message::AnswerBody;
use amita_cluster::{RequestId, Version};
use amita_reactor::Slice;
use amita_store::State;
use common::model::{Change, Model};
use common::{Asker, BLOCK, Fate, Rig, Rng, version};
use std::collections::HashMap;

const BLOCKS: u16 = 16;
const CHUNKS: u64 = 4;
/// Up to so many loose writes, every subset is tried.
const ALL_SUBSETS: usize = 4;
const RANDOM_CUTS: usize = 12;

#[derive(Default)]
struct Tried {
    states: usize,
    short: usize,
}

fn check(rig: &Rig, model: &Model, image: Vec<u8>, tried: &mut Tried) {
    tried.states += 1;
    let mut rig = rig.reopened(image);
    rig.run();
    assert_eq!(*rig.store.state(), State::Serving);
    tried.short += usize::from(rig.store.status().mount.ended_short);
    let mut asker = Asker::new(9);
    asker.blocks_per_chunk = BLOCKS;
    asker.fence(&mut rig).expect("the owner is known");
    let mut model = model.clone();
    for index in 0..CHUNKS {
        let at = asker.open(&mut rig, index);
        let chunk = model.chunk(index);
        chunk.settle(at);
        let (bytes, newest) = asker.read(&mut rig, index, 0, BLOCKS).expect("nothing is damaged");
        assert!(bytes == chunk.acknowledged.bytes(0, BLOCKS), "chunk {index} at {at}");
        assert_eq!(newest, chunk.acknowledged.newest(0, BLOCKS));
    }
}

fn cut_everywhere(rig: &Rig, model: &Model, rng: &mut Rng, tried: &mut Tried) {
    let loose = rig.loose();
    if loose <= ALL_SUBSETS {
        for subset in 0..1usize << loose {
            let image = rig.cut_as(|at| if subset >> at & 1 == 1 { Fate::Kept } else { Fate::Lost });
            check(rig, model, image, tried);
        }
        if loose > 0 {
            check(rig, model, rig.cut(rng), tried);
        }
    } else {
        for _ in 0..RANDOM_CUTS {
            check(rig, model, rig.cut(rng), tried);
        }
    }
}

fn listen(rig: &mut Rig, model: &mut Model, asked: &mut HashMap<RequestId, (u64, Version)>) {
    for told in std::mem::take(&mut rig.told) {
        let (index, version) = asked.remove(&told.answer.id).expect("asked once");
        if told.answer.result == Ok(AnswerBody::Done) {
            model.chunk(index).acknowledge(version);
        } else {
            assert_eq!(model.chunk(index).last(), version, "refused at once");
            model.chunk(index).take_back();
        }
    }
}

fn run(seed: u64, volatile: bool, operations: usize) -> Tried {
    let mut rng = Rng(seed);
    let mut rig = Rig::fresh(1 << 20, volatile);
    let mut asker = Asker::new(1);
    asker.blocks_per_chunk = BLOCKS;
    asker.fence(&mut rig).unwrap();
    let mut model = Model::new(usize::from(BLOCKS));
    let mut asked = HashMap::new();
    let mut tried = Tried::default();
    for _ in 0..operations {
        for _ in 0..1 + rng.below(3) {
            let index = rng.below(CHUNKS as usize) as u64;
            let previous = model.chunk(index).last();
            let next = version(1, previous.counter() + 1);
            let limit = usize::from(BLOCKS) * BLOCK;
            let offset = if rng.chance(3) {
                rng.below(limit)
            } else {
                rng.below(usize::from(BLOCKS)) * BLOCK
            };
            let length = (limit - offset).min(if rng.chance(4) { 3 * BLOCK } else { BLOCK });
            let bytes = rng.bytes(length);
            let request = asker.write_request(index, offset as u32, &bytes, next, previous);
            asked.insert(request.id, (index, next));
            let offset = offset as u32;
            model.chunk(index).send(
                next,
                previous,
                Change::Write {
                    offset,
                    bytes: bytes.clone(),
                },
            );
            rig.send(asker.link, request, Slice::copy_from(&bytes));
            listen(&mut rig, &mut model, &mut asked);
        }
        rig.store.end_pass(rig.now);
        rig.pump();
        for _ in 0..rng.below(6) {
            if !rig.flights.is_empty() {
                let at = rng.below(rig.flights.len());
                rig.complete(at);
                rig.store.end_pass(rig.now);
                rig.pump();
            }
            listen(&mut rig, &mut model, &mut asked);
            cut_everywhere(&rig, &model, &mut rng, &mut tried);
        }
    }
    assert!(model.chunk(0).acknowledged.version > Version::NONE);
    assert!(
        rig.store.status().counters.checkpoints > 0,
        "the run is long enough for a checkpoint"
    );
    tried
}

#[test]
fn cut_after_every_operation() {
    let tried = run(1, false, 100);
    println!("{} states, {} of them ended short", tried.states, tried.short);
    assert!(tried.states > 1000 && tried.short > 50);
}

#[test]
fn cut_after_every_operation_with_a_volatile_cache() {
    let tried = run(2, true, 100);
    println!("{} states, {} of them ended short", tried.states, tried.short);
    assert!(tried.states > 1000 && tried.short > 50);
}
