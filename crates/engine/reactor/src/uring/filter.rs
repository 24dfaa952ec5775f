//! Keeps out of a listener whom a [`Rule`] names: by a program of the classic packet filter that the kernel runs on each packet that comes
//! to the listener (`SO_ATTACH_FILTER`, socket(7)), which are requests to connect and what completes them. A packet that it drops costs
//! nobody here anything: no system call, no descriptor, not even being woken.

use super::sys;
use crate::admission::{Rule, Source};
use std::os::fd::OwnedFd;

/// Sources in a program, at most: two instructions each, of IPv6 five. The kernel takes 4,096 instructions (`BPF_MAXINSNS`), and of each
/// socket as much as it may hold of options (`net.core.optmem_max`: 20 KiB where it was never raised).
const MAX_SOURCES: usize = 1024;

/// Offsets from here on count from the head of the IP packet (`SKF_NET_OFF`).
const NETWORK: u32 = -0x10_0000i32 as u32;
/// Where the source address stands (RFC 791, section 3.1; RFC 8200, section 3).
const SOURCE_V4: u32 = NETWORK + 12;
const SOURCE_V6: u32 = NETWORK + 8;

const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const SHIFT_RIGHT: u16 = (libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Gives the kernel the rule of a listener that `filtered` says has one already; has it one now?
pub(super) fn apply(listener: &OwnedFd, rule: Rule<'_>, filtered: bool) -> bool {
    if rule == Rule::AllBut(&[]) {
        return filtered && sys::detach_filter(listener).is_err();
    }
    // Where that is more than the kernel takes: for fewer.
    let mut most = MAX_SOURCES;
    loop {
        match sys::attach_filter(listener, &program(rule, most)) {
            Ok(()) => return true,
            Err(_) if most > 0 => most /= 2,
            Err(_) => return filtered,
        }
    }
}

/// What lets pass whom the rule does, of at most so many sources that it names.
fn program(rule: Rule<'_>, most: usize) -> Vec<libc::sock_filter> {
    match rule {
        Rule::Nobody => vec![end(false)],
        Rule::AllBut(kept_out) => decide(kept_out.iter().copied().take(most), false),
        Rule::Known(known) => decide(known.iter().copied().take(most), true),
    }
}

/// Those pass or not, as `named` says, and all others the other way round.
fn decide(sources: impl Iterator<Item = Source>, named: bool) -> Vec<libc::sock_filter> {
    let (mut four, mut six) = (vec![step(LOAD_WORD, SOURCE_V4)], Vec::new());
    for source in sources {
        match source {
            Source::V4(address) => four.extend([when(address, 0, 1), end(named)]),
            Source::V6(network) => six.extend([
                step(LOAD_WORD, SOURCE_V6),
                when((network >> 32) as u32, 0, 3),
                step(LOAD_WORD, SOURCE_V6 + 4),
                when(network as u32, 0, 1),
                end(named),
            ]),
        }
    }
    four.push(end(!named));
    six.push(end(!named));
    // Its version is in the first four bits.
    let mut program = vec![step(LOAD_BYTE, NETWORK), step(SHIFT_RIGHT, 4), when(6, 0, 1)];
    program.push(step(JUMP, four.len() as u32));
    program.append(&mut four);
    program.append(&mut six);
    program
}

fn step(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// Goes on past so many steps when what was loaded is that value, or is not.
fn when(value: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: IS,
        jt,
        jf,
        k: value,
    }
}

fn end(passes: bool) -> libc::sock_filter {
    step(RETURN, if passes { u32::MAX } else { 0 })
}

#[cfg(test)]
mod tests;
