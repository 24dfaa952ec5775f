//! A host of an end: it opens all volumes of the mirror as soon as it is let, reads all that they have, and then writes and reads, one thing after
//! another. What it writes is a number of its own in each block, so that what is read later tells which write it was.

use super::wire::Did;
use super::{BLOCK, value_of};
use crate::cluster::moves::line::{Ask, Brought, End, Line, Piece};
use crate::random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What has come of a write that failed is settled within this, and the block may be written again.
const SETTLES: Duration = Duration::from_secs(8);
/// The most that one is used before it is opened anew, elsewhere perhaps.
const LONGEST: u64 = 120;

/// How it works.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    pub volumes: Vec<String>,
    /// What the operator has told it of the volumes' sizes, in blocks, also while it has them open.
    pub told: Vec<Arc<AtomicU64>>,
    /// The pause between two operations, at most.
    pub pause: Duration,
    /// Its numbers begin behind this.
    pub values: u64,
    /// It does nothing but read all once, and ends.
    pub reads_once: bool,
}

/// Works until it has to be opened anew.
pub(super) fn run(line: &Line, habits: &Habits, mut random: Random) {
    let why = work(line, habits, &mut random).err();
    (0..habits.volumes.len()).for_each(|volume| line.say(Ask::Close(End::Nth(volume))));
    line.say(Ask::Ended(why));
}

fn did(line: &Line, what: Did) {
    line.say(Ask::Did(Box::new(what)));
}

fn is_closed(why: &str) -> bool {
    why.contains("closed")
}

fn work(line: &Line, habits: &Habits, random: &mut Random) -> Result<(), String> {
    let mut opened = Vec::new();
    for (volume, name) in habits.volumes.iter().enumerate() {
        let open = line.open(End::Nth(volume), name, None);
        let open = open.inspect_err(|why| {
            let is_closed = is_closed(why);
            did(line, Did::Refused { is_closed });
        })?;
        // Who makes a volume smaller has a gateway of its own in the product, which ends. That of the simulation goes on, and says what it knew before.
        opened.push((open.size_bytes / BLOCK).min(habits.told[volume].load(Ordering::Relaxed)));
    }
    did(line, Did::Opened(opened.clone()));
    for (volume, blocks) in opened.iter().enumerate() {
        for first in (0..*blocks).step_by(super::CHUNK_BLOCKS as usize) {
            read(line, volume, first, super::CHUNK_BLOCKS.min(blocks - first))?;
        }
    }
    if habits.reads_once {
        return Ok(());
    }
    let mut value = habits.values;
    for _ in 0..random.within(LONGEST / 4, LONGEST) {
        let pause = random.within(1, habits.pause.as_nanos() as u64);
        line.rest(Duration::from_nanos(pause));
        let volume = random.below(habits.volumes.len() as u64) as usize;
        let blocks = opened[volume].max(habits.told[volume].load(Ordering::Relaxed));
        let hot = random.percent(50);
        let block = match blocks > opened[volume] && random.percent(50) {
            // What has just come is used at once.
            true => random.within(opened[volume], blocks - 1),
            false => random.below(if hot { 4.min(blocks) } else { blocks }),
        };
        if random.percent(25) {
            read(line, volume, block, 1)?;
            continue;
        }
        value += 1;
        // Zeros are nobody's, and are read as what was never written: they are not told from it.
        did(line, Did::Began { volume, block, value });
        let data = value.to_le_bytes().repeat(BLOCK as usize / 8);
        let offset = block * BLOCK;
        match line.io(End::Nth(volume), vec![Piece::Write { offset, data }]) {
            Ok(_) => did(line, Did::Acknowledged { value }),
            Err(why) => {
                let is_closed = is_closed(&why);
                did(line, Did::Failed { is_closed });
                // Its gateway has not heard of the larger size, and nothing was written; else it is not known.
                if !is_closed && !why.contains("outside the volume") {
                    line.rest(SETTLES);
                }
                return Err(why);
            }
        }
    }
    Ok(())
}

fn read(line: &Line, volume: usize, first: u64, count: u64) -> Result<(), String> {
    let piece = Piece::Read {
        offset: first * BLOCK,
        length: (count * BLOCK) as u32,
    };
    let asked = line.now();
    let brought = line.io(End::Nth(volume), vec![piece])?;
    let Some(Brought::Bytes(bytes)) = brought.into_iter().next() else {
        return Err("a read brings no bytes".to_owned());
    };
    let values = bytes.chunks(BLOCK as usize).map(value_of).collect();
    did(
        line,
        Did::Read {
            asked,
            volume,
            first,
            values,
        },
    );
    Ok(())
}
