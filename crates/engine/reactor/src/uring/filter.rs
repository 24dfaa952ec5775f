//! Keeps out of a listener whom a [`Rule`] names: by a program of the classic packet filter that the kernel runs on each packet that comes
//! to the listener (`SO_ATTACH_FILTER`, socket(7)), which are requests to connect and what completes them. A packet that it drops costs
//! nobody here anything: no system call, no descriptor, not even being woken.

use super::sys;
use crate::admission::{Named, Rule};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// Addresses and networks in a program, at most: of IPv4 two instructions each, of IPv6 nine and five. The kernel takes 4,096 instructions
/// (`BPF_MAXINSNS`), and of each socket as much as it may hold of options (`net.core.optmem_max`: 20 KiB where it was never raised).
const MAX_NAMED: usize = 1024;

/// What the kernel does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Applied {
    /// It drops requests to connect.
    pub filtered: bool,
    /// The program had no room for so many whom the rule names.
    pub left_out: usize,
}

/// Offsets from here on count from the head of the IP packet (`SKF_NET_OFF`).
const NETWORK: u32 = -0x10_0000i32 as u32;
/// Where the source address stands (RFC 791, section 3.1; RFC 8200, section 3).
const SOURCE_V4: u32 = NETWORK + 12;
const SOURCE_V6: u32 = NETWORK + 8;
/// Offsets below count from the head of the TCP segment, where a socket's program finds it. The flags (RFC 9293, section 3.1):
const FLAGS: u32 = 13;
const SYN: u32 = 0x02;
const SYN_AND_ACK: u32 = 0x12;

const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const SHIFT_RIGHT: u16 = (libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Gives the kernel the rule of a listener that `filtered` says has one already.
pub(super) fn apply(listener: &OwnedFd, rule: Rule<'_>, filtered: bool) -> Applied {
    if rule.is_open() {
        return Applied {
            filtered: filtered && sys::detach_filter(listener).is_err(),
            left_out: 0,
        };
    }
    let (list, others) = rule.list();
    let (mut most, mut filtered) = (list.len().min(MAX_NAMED), filtered);
    loop {
        let program = program(&list[..most], others, rule.is_strict());
        if sys::attach_filter(listener, &program).is_ok() {
            return Applied {
                filtered: true,
                left_out: list.len() - most,
            };
        }
        // Both have to find room while one takes the place of the other.
        if filtered && sys::detach_filter(listener).is_ok() {
            filtered = false;
        } else if most > 0 {
            // That is more than the kernel takes: for fewer.
            most -= most.div_ceil(4);
        } else {
            return Applied { filtered, left_out: 0 };
        }
    }
}

/// Lets pass whom the list says, and all others or none. What is no request to connect passes, unless it is strict: the other end
/// may believe already that it is connected, and is to be told that it is not.
fn program(list: &[(Named, bool)], others: bool, is_strict: bool) -> Vec<libc::sock_filter> {
    let mut program = Vec::new();
    if !is_strict {
        program.extend([
            step(LOAD_BYTE, FLAGS),
            step(AND, SYN_AND_ACK),
            when(SYN, 1, 0),
            end(true),
        ]);
    }
    let (mut four, mut six) = (vec![step(LOAD_WORD, SOURCE_V4)], Vec::new());
    for (named, passes) in list {
        match named {
            Named::Address(IpAddr::V4(address)) => four.extend([when((*address).into(), 0, 1), end(*passes)]),
            Named::Address(IpAddr::V6(address)) => when_six(&mut six, (*address).into(), 4, *passes),
            Named::Network(network) => when_six(&mut six, u128::from(*network) << 64, 2, *passes),
        }
    }
    four.push(end(others));
    six.push(end(others));
    // Its version is in the first four bits.
    program.extend([step(LOAD_BYTE, NETWORK), step(SHIFT_RIGHT, 4), when(6, 0, 1)]);
    program.push(step(JUMP, four.len() as u32));
    program.append(&mut four);
    program.append(&mut six);
    program
}

/// Ends when so many words of the address are those.
fn when_six(program: &mut Vec<libc::sock_filter>, address: u128, words: u32, passes: bool) {
    for word in 0..words {
        program.push(step(LOAD_WORD, SOURCE_V6 + 4 * word));
        let value = (address >> (96 - 32 * word)) as u32;
        program.push(when(value, 0, (2 * (words - word) - 1) as u8));
    }
    program.push(end(passes));
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
