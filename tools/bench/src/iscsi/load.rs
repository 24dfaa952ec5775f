//! A load of reads or writes by one session, that costs as little as it can itself.

use super::session::{Command, Session};
use crate::case::Mix;
use amita_terminal::error::Result;
use amita_testkit::histogram::Histogram;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The length of a logical block of the LUNs that are measured.
pub const BLOCK_BYTES: usize = 4096;

/// What to load a LUN with: single blocks in random order.
#[derive(Clone, Debug)]
pub struct Load {
    pub lun: u16,
    pub mix: Mix,
    pub depth: usize,
    /// The first so many blocks are worked on.
    pub blocks: u64,
    pub duration: Duration,
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Loaded {
    pub operations: u64,
    pub errors: u64,
    pub elapsed: Duration,
    pub latency: Histogram,
}

/// READ (16) or WRITE (16) (SBC-3, 5.16 and 5.38).
#[must_use]
pub fn transfer(opcode: u8, block: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&block.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

pub const READ: u8 = 0x88;
pub const WRITE: u8 = 0x8a;

/// Runs it, on the calling thread.
///
/// # Errors
/// When the connection breaks. Commands that fail are counted.
pub fn run(session: &mut Session, load: &Load) -> Result<Loaded> {
    // What happened to the unit before is told to a command that asks for nothing (TEST UNIT READY).
    let ready = Command {
        lun: load.lun,
        cdb: [0; 16],
        out: &[],
        takes: 0,
    };
    session.run(&[ready])?;
    let data: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at * 31) as u8).collect();
    let reads = load.mix == Mix::Read;
    let mut random = load.seed | 1;
    let mut flying = HashMap::with_capacity(load.depth);
    let mut done = Loaded::default();
    let begun = Instant::now();
    let end = begun + load.duration;
    let mut now = begun;
    loop {
        while now < end && flying.len() < load.depth && session.has_room() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let block = (random >> 8) % load.blocks;
            let command = Command {
                lun: load.lun,
                cdb: transfer(if reads { READ } else { WRITE }, block, 1),
                out: if reads { &[] } else { &data },
                takes: if reads { BLOCK_BYTES as u32 } else { 0 },
            };
            flying.insert(session.start(&command, false), now);
        }
        if flying.is_empty() {
            break;
        }
        // All that has come is taken before more is sent.
        loop {
            let ended = session.wait()?;
            now = Instant::now();
            match ended.is_good() {
                true => done.operations += 1,
                false => done.errors += 1,
            }
            if let Some(started) = flying.remove(&ended.tag) {
                done.latency
                    .record(u64::try_from((now - started).as_nanos()).unwrap_or(u64::MAX));
            }
            if flying.is_empty() || !session.has_more() {
                break;
            }
        }
    }
    done.elapsed = begun.elapsed();
    Ok(done)
}
