//! The commands of an I/O queue (NVM Command Set 1.1, section 3): checked here, carried out in pieces.

pub(super) mod copy;
pub(super) mod dataset;
pub(super) mod fused;
mod protocol;
pub(super) mod reserve;

use super::catalog::{Ana, Namespace};
use super::command::{Command, Status};
use super::queue::{Queue, Refusal, Role, Target, Work};
use super::wire::{Carrier, Sgl, status};
use super::{Cx, port};
use amita_frontend::engine::{Delivery, Plan, Protocol as _, Submission};
use amita_frontend::pieces::piece_end;
use amita_reactor::Slice;
use amita_types::io::Op;

pub(super) mod opcode {
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const COMPARE: u8 = 0x05;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET: u8 = 0x09;
    pub const VERIFY: u8 = 0x0c;
    pub const RESERVATION_REGISTER: u8 = 0x0d;
    pub const RESERVATION_REPORT: u8 = 0x0e;
    pub const RESERVATION_ACQUIRE: u8 = 0x11;
    pub const RESERVATION_RELEASE: u8 = 0x15;
    pub const COPY: u8 = 0x19;
}

const ALL_NAMESPACES: u32 = u32::MAX;
/// Write Zeroes may free the blocks (DEAC, command dword 12).
const DEALLOCATE: u32 = 1 << 25;

/// Takes a command of an I/O queue.
pub(super) fn command(queue: &mut Queue, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    match command.fuse() {
        0 => fused::break_off(queue, cx)?,
        _ => return fused::command(queue, command, data, cx),
    }
    if command.opcode() == opcode::FLUSH && command.nsid() == ALL_NAMESPACES {
        // All that was answered is durable: there is nothing to do, whatever is reserved.
        queue.nothing_to_do(command, cx);
        return Ok(());
    }
    let namespace = namespace(&queue.role, command)?;
    check_protection(&namespace, command)?;
    match command.opcode() {
        // All that can be read of it is durable, and it takes neither hints nor reservations.
        opcode::FLUSH | opcode::DATASET if namespace.is_write_protected() => {
            queue.nothing_to_do(command, cx);
            Ok(())
        }
        opcode::FLUSH => flush(queue, command, &namespace, cx),
        opcode::READ => {
            let (target, length) = range(command, &namespace, true)?;
            let sgl = Sgl::parse(command)?;
            if sgl.carrier != Carrier::Transport {
                return Err(status::SGL_TYPE.into());
            }
            if sgl.length != length {
                return Err(status::SGL_LENGTH.into());
            }
            let plan = Plan::Read(target.pieces(length));
            run(queue, command, Work::Read, plan, target, length, cx)
        }
        opcode::WRITE | opcode::COMPARE => {
            let (target, length) = range(command, &namespace, true)?;
            if command.opcode() == opcode::WRITE && command.dword(12) >> 20 & 0xf != 0 {
                // Directives are not supported.
                return Err(status::INVALID_FIELD.into());
            }
            let cursor = target.pieces(length);
            let work = match command.opcode() {
                opcode::WRITE => Work::Write { cursor },
                _ => Work::Compare { cursor },
            };
            queue.bring(command, work, target, length, data, cx)?;
            Ok(())
        }
        opcode::WRITE_ZEROES => {
            let (target, length) = range(command, &namespace, false)?;
            let holes = command.dword(12) & DEALLOCATE != 0;
            let plan = Plan::Zero(target.zeroes(length, holes));
            run(queue, command, Work::Zeroes, plan, target, length, cx)
        }
        opcode::VERIFY => {
            let (target, length) = range(command, &namespace, true)?;
            let plan = Plan::Read(target.pieces(length));
            run(queue, command, Work::Verify, plan, target, length, cx)
        }
        opcode::DATASET => dataset::command(queue, command, &namespace, data, cx),
        opcode::COPY => copy::command(queue, command, &namespace, data, cx),
        opcode::RESERVATION_REGISTER
        | opcode::RESERVATION_REPORT
        | opcode::RESERVATION_ACQUIRE
        | opcode::RESERVATION_RELEASE => reserve::command(queue, command, &namespace, data, cx),
        _ => Err(status::INVALID_OPCODE.into()),
    }
}

/// All that was answered is durable, so that there is nothing to do; but a host that a reservation does not let write
/// may not flush either (NVM Express Base 2.1, 8.1.24, and NVM Command Set 1.1, 3.2: Flush is of the commands that
/// write). The volume's owner knows: it is asked by a write of nothing. Hosts that heed VWC never come here.
fn flush(queue: &mut Queue, command: &Command, namespace: &Namespace, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let slot = queue.begin(command, Work::Wait)?;
    queue.aim(slot, target(namespace, 0), 0);
    queue.engine.request(slot).issued = true;
    queue.submit(slot, Submission::of(Op::Clear { offset: 0, length: 0 }), cx);
    Ok(())
}

/// Starts a command that brings no data.
fn run(
    queue: &mut Queue,
    command: &Command,
    work: Work,
    plan: Plan,
    target: Target,
    length: u32,
    cx: &mut Cx<'_>,
) -> Result<(), Refusal> {
    let slot = queue.begin(command, work)?;
    queue.aim(slot, target, length);
    let request = queue.engine.request(slot);
    request.plan = plan;
    if matches!(work, Work::Read) {
        request.delivery = Delivery::InOrder;
    }
    queue.start(slot, cx)?;
    Ok(())
}

/// May the command be given to the namespace? What is write protected is not changed (Base 2.1, 8.1.16: Namespace is Write Protected),
/// nor reserved: it says so itself (RESCAP is 0).
pub(super) fn check_protection(namespace: &Namespace, command: &Command) -> Result<(), Status> {
    if !namespace.is_write_protected() {
        return Ok(());
    }
    match command.opcode() {
        opcode::WRITE | opcode::WRITE_ZEROES | opcode::COPY => Err(status::WRITE_PROTECTED),
        opcode::DATASET if command.dword(11) & dataset::DEALLOCATE != 0 => Err(status::WRITE_PROTECTED),
        opcode::RESERVATION_REGISTER
        | opcode::RESERVATION_REPORT
        | opcode::RESERVATION_ACQUIRE
        | opcode::RESERVATION_RELEASE => Err(status::INVALID_OPCODE),
        _ => Ok(()),
    }
}

/// The namespace that a command is for, if it can be reached here.
pub(super) fn namespace(role: &Role, command: &Command) -> Result<std::sync::Arc<Namespace>, Status> {
    if !is_known(command.opcode()) {
        return Err(status::INVALID_OPCODE);
    }
    let subsystem = role.subsystem().ok_or(status::INVALID_NAMESPACE)?;
    let namespace = subsystem.namespace(command.nsid()).ok_or(status::INVALID_NAMESPACE)?;
    // "[...] the controller shall fail the command" in these states (Base 2.1, 8.1.1.3), but for reservations.
    match namespace.ana {
        Ana::Optimized | Ana::NonOptimized => Ok(namespace.clone()),
        Ana::Inaccessible => Err(status::ANA_INACCESSIBLE),
        Ana::Change => Err(status::ANA_TRANSITION),
    }
}

fn is_known(opcode: u8) -> bool {
    matches!(
        opcode,
        opcode::FLUSH
            | opcode::WRITE
            | opcode::READ
            | opcode::COMPARE
            | opcode::WRITE_ZEROES
            | opcode::DATASET
            | opcode::VERIFY
            | opcode::RESERVATION_REGISTER
            | opcode::RESERVATION_REPORT
            | opcode::RESERVATION_ACQUIRE
            | opcode::RESERVATION_RELEASE
            | opcode::COPY
    )
}

/// The target of a namespace's volume.
fn target(namespace: &Namespace, offset: u64) -> Target {
    Target {
        source: namespace.source(),
        chunk_bytes: namespace.chunk_bytes,
        offset,
    }
}

/// The bytes of a range of logical blocks, if they are in the namespace.
fn bytes(namespace: &Namespace, first: u64, count: u64) -> Result<(u64, u64), Status> {
    let block = u64::from(namespace.block_bytes);
    let end = first.checked_add(count).and_then(|end| end.checked_mul(block));
    match end {
        Some(end) if end <= namespace.size_bytes => Ok((first * block, count * block)),
        _ => Err(status::LBA_RANGE),
    }
}

/// The range of a command with SLBA and NLB; `has_data`: it is limited by MDTS (for Verify, VSL).
///
/// PRINFO and the storage tag check mean nothing without end-to-end protection, and are ignored as the command set says;
/// "limited retry" and "force unit access" ask for nothing that is not so anyway.
fn range(command: &Command, namespace: &Namespace, has_data: bool) -> Result<(Target, u32), Status> {
    let count = u64::from(command.dword(12) & 0xffff) + 1;
    let (offset, length) = bytes(namespace, command.qword(10), count)?;
    if has_data && length > u64::from(port::MAX_TRANSFER_BYTES) {
        return Err(status::INVALID_FIELD);
    }
    // 65,536 blocks of 4 KiB fit.
    Ok((target(namespace, offset), length as u32))
}

/// Does the volume take the range as one?
fn is_one_piece(target: &Target, length: u32) -> bool {
    let end = target.offset + u64::from(length);
    piece_end(target.offset, end, target.chunk_bytes) == end
}
