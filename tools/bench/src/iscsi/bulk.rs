//! What a target does by itself, beside a host that does it: EXTENDED COPY, and WRITE SAME of zeros.

use super::failed;
use super::load::{BLOCK_BYTES, READ, WRITE, transfer};
use super::session::{Command, Session};
use crate::case::Placement;
use crate::report::Figures;
use crate::testbed::{NODES, Product, Testbed};
use amita_control::admin::{self, LunSpec, TargetSpec};
use amita_harness::scratch::Scratch;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use std::time::{Duration, Instant};

/// What is copied.
const COPY_BYTES: u64 = 1 << 30;
/// Room for it, for two copies of it, and for the store's own.
const STORE_BYTES: u64 = 5 << 30;
/// The volume: a thin one, of which little is ever written.
const VOLUME_BYTES: u64 = 1 << 40;
const LUN: u16 = 0;
const TARGET: &str = "bulk";
/// A host copies by pieces of so many bytes, so many at a time.
const PIECE_BYTES: usize = 1 << 20;
const PIECES: u64 = 8;
/// Blocks of a segment of EXTENDED COPY, and segments of a command: what hypervisors send is smaller.
const SEGMENT_BLOCKS: u64 = 16 << 10;
const SEGMENTS: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(20);
/// What EXTENDED COPY is to be faster by.
const COPY_RATIO: f64 = 20.0;
/// How long zeros of 1 TiB may take.
const ZERO_SECONDS: f64 = 10.0;

/// Measures and judges it, on a cluster of its own.
///
/// # Errors
/// When something does not start, or a command fails. Never for a figure.
pub fn measure(steps: &mut Steps, product: &Product, figures: &mut Figures) -> Result<()> {
    let (testbed, mut session) = steps.step("starting three nodes with a volume of 1 TiB", || start(product))?;
    testbed.place(Placement::Free)?;
    steps.step("writing 1 GiB", || fill(&mut session))?;
    let by_host = steps.step("a host copies 1 GiB within a volume", || {
        timed(|| host_copies(&mut session, 0, COPY_BYTES))
    })?;
    let by_target = steps.step("EXTENDED COPY of the same", || {
        timed(|| target_copies(&mut session, 0, 2 * COPY_BYTES))
    })?;
    steps.step("comparing what was copied", || compare(&mut session))?;
    figures.note(
        "iscsi.copy.host_s",
        "1 GiB copied within a volume by a host, 8 pieces of 1 MiB at a time",
        by_host,
        "s",
    );
    figures.note(
        "iscsi.copy.xcopy_s",
        "the same by EXTENDED COPY, segments of 64 MiB",
        by_target,
        "s",
    );
    figures.at_least(
        "iscsi.copy.times",
        "EXTENDED COPY within one pool: times as fast as a host",
        by_host / by_target.max(1e-9),
        "times",
        COPY_RATIO,
    );
    let zeroed = steps.step("WRITE SAME of zeros, 1 TiB", || timed(|| zero(&mut session)))?;
    figures.at_most(
        "iscsi.write_same_1t_s",
        "WRITE SAME of zeros over 1 TiB, of which 3 GiB were written",
        zeroed,
        "s",
        ZERO_SECONDS,
    );
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_secs_f64())
}

fn start(product: &Product) -> Result<(Testbed, Session)> {
    let scratch = Scratch::make("iscsi", None, None, STORE_BYTES * NODES as u64)?;
    let mut testbed = Testbed::with_room(scratch, STORE_BYTES, VOLUME_BYTES, product)?;
    testbed.cluster.give_portals();
    let gateway = testbed.cluster.add_gateway("g1")?;
    let meta = testbed.cluster.metadata_client()?;
    let spec = TargetSpec {
        name: TARGET.to_owned(),
        any_initiator: true,
        ..TargetSpec::default()
    };
    let iqn = admin::create_target(&meta, &spec).map_err(failed)?.iqn;
    let lun = LunSpec {
        of: testbed.volumes[0].clone(),
        number: Some(LUN),
        block_bytes: BLOCK_BYTES as u32,
        shared: true,
    };
    admin::add_lun(&meta, TARGET, &lun).map_err(failed)?;
    let portal = testbed.cluster.nodes()[gateway].iscsi;
    let portal = portal.ok_or_else(|| Failure::new("the gateway has no portal"))?;
    Ok((testbed, super::await_login(portal, &iqn, LUN, PATIENCE)?))
}

fn command(cdb: [u8; 16], out: &[u8], takes: u32) -> Command<'_> {
    Command {
        lun: LUN,
        cdb,
        out,
        takes,
    }
}

fn blocks(bytes: u64) -> u64 {
    bytes / BLOCK_BYTES as u64
}

/// So many pieces at a time, by the numbers of their first blocks.
fn batches() -> impl Iterator<Item = Vec<u64>> {
    let all = COPY_BYTES / PIECE_BYTES as u64;
    (0..all / PIECES).map(|batch| {
        let pieces = batch * PIECES..(batch + 1) * PIECES;
        pieces.map(|piece| blocks(piece * PIECE_BYTES as u64)).collect()
    })
}

const PIECE_BLOCKS: u32 = (PIECE_BYTES / BLOCK_BYTES) as u32;

fn fill(session: &mut Session) -> Result<()> {
    for batch in batches() {
        interrupt::check()?;
        let data = batch.iter().map(|at| content(*at)).collect::<Vec<_>>();
        let writes = batch.iter().zip(&data);
        let writes: Vec<_> = writes
            .map(|(at, data)| command(transfer(WRITE, *at, PIECE_BLOCKS), data, 0))
            .collect();
        session.run(&writes)?;
    }
    Ok(())
}

/// No two blocks are the same.
fn content(first: u64) -> Vec<u8> {
    let words = (0..PIECE_BYTES as u64 / 8).map(|word| (first << 20 | word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).collect()
}

fn reads(session: &mut Session, batch: &[u64], offset: u64) -> Result<Vec<Vec<u8>>> {
    let reads: Vec<_> = batch
        .iter()
        .map(|at| {
            command(
                transfer(READ, at + blocks(offset), PIECE_BLOCKS),
                &[],
                PIECE_BYTES as u32,
            )
        })
        .collect();
    session.run(&reads)
}

fn host_copies(session: &mut Session, from: u64, to: u64) -> Result<()> {
    for batch in batches() {
        interrupt::check()?;
        let data = reads(session, &batch, from)?;
        let writes = batch.iter().zip(&data);
        let writes: Vec<_> = writes
            .map(|(at, data)| command(transfer(WRITE, at + blocks(to), PIECE_BLOCKS), data, 0))
            .collect();
        session.run(&writes)?;
    }
    Ok(())
}

/// EXTENDED COPY (LID1) with the disk's NAA designator as both of its ends (SPC-3, 6.3).
fn target_copies(session: &mut Session, from: u64, to: u64) -> Result<()> {
    let designator = designator(session)?;
    let (mut at, end) = (0, blocks(COPY_BYTES));
    while at < end {
        interrupt::check()?;
        let segments = (at..end).step_by(SEGMENT_BLOCKS as usize).take(SEGMENTS as usize);
        let list: Vec<u8> = segments
            .flat_map(|first| {
                let length = SEGMENT_BLOCKS.min(end - first);
                segment(blocks(from) + first, blocks(to) + first, length as u16)
            })
            .collect();
        let list = parameters(&designator, &list);
        let mut cdb = [0; 16];
        cdb[0] = 0x83;
        cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
        session.run(&[command(cdb, &list, 0)])?;
        at += SEGMENT_BLOCKS * SEGMENTS;
    }
    Ok(())
}

/// The NAA designator of the logical unit, from the device identification page (SPC-4, 7.8.6): its head and its bytes.
fn designator(session: &mut Session) -> Result<Vec<u8>> {
    let mut cdb = [0; 16];
    cdb[..5].copy_from_slice(&[0x12, 1, 0x83, 2, 0]);
    let page = session.run(&[command(cdb, &[], 512)])?.remove(0);
    let mut rest = page.get(4..).unwrap_or_default();
    while let [_, kind, _, length, ..] = *rest {
        let all = 4 + usize::from(length);
        // Of the logical unit (0), NAA (3).
        if kind & 0x3f == 3 && rest.len() >= all {
            return Ok(rest[..all].to_vec());
        }
        rest = rest.get(all..).unwrap_or_default();
    }
    Err(Failure::new(format!("the disk has no NAA name: {page:02x?}")))
}

/// The parameter list: one target descriptor by identification (E4h; SPC-3, 6.3.6.2), both source and destination.
fn parameters(designator: &[u8], segments: &[u8]) -> Vec<u8> {
    let mut target = vec![0; 32];
    target[0] = 0xe4;
    target[4..4 + designator.len().min(24)].copy_from_slice(&designator[..designator.len().min(24)]);
    target[28..32].copy_from_slice(&(BLOCK_BYTES as u32).to_be_bytes());
    let mut list = vec![0; 16];
    // No list identifier is kept (NLID), and no data are held.
    list[1] = 0x18;
    list[2..4].copy_from_slice(&(target.len() as u16).to_be_bytes());
    list[8..12].copy_from_slice(&(segments.len() as u32).to_be_bytes());
    list.extend(target);
    list.extend_from_slice(segments);
    list
}

/// From block device to block device (02h; SPC-3, 6.3.7.5).
fn segment(from: u64, to: u64, blocks: u16) -> [u8; 28] {
    let mut segment = [0; 28];
    segment[0] = 0x02;
    segment[2..4].copy_from_slice(&24_u16.to_be_bytes());
    segment[10..12].copy_from_slice(&blocks.to_be_bytes());
    segment[12..20].copy_from_slice(&from.to_be_bytes());
    segment[20..28].copy_from_slice(&to.to_be_bytes());
    segment
}

/// What was copied is what was to be.
fn compare(session: &mut Session) -> Result<()> {
    for batch in batches() {
        interrupt::check()?;
        let wanted: Vec<Vec<u8>> = batch.iter().map(|at| content(*at)).collect();
        for offset in [COPY_BYTES, 2 * COPY_BYTES] {
            if reads(session, &batch, offset)? != wanted {
                return Err(Failure::new(format!("what was copied to {offset} differs")));
            }
        }
    }
    Ok(())
}

/// WRITE SAME (16) without data, over everything (SBC-3, 5.45).
fn zero(session: &mut Session) -> Result<()> {
    let mut cdb = transfer(0x93, 0, blocks(VOLUME_BYTES) as u32);
    cdb[1] = 0x01;
    session.run(&[command(cdb, &[], 0)])?;
    let first = session.run(&[command(transfer(READ, 0, PIECE_BLOCKS), &[], PIECE_BYTES as u32)])?;
    if first[0].iter().any(|byte| *byte != 0) {
        return Err(Failure::new("what was to be zeros is not"));
    }
    Ok(())
}
