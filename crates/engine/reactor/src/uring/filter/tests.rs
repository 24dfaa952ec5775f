use super::*;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Runs a program as the kernel does, on a packet that begins with its IP header: does it pass?
fn passes(program: &[libc::sock_filter], packet: &[u8]) -> bool {
    let (mut accumulator, mut at) = (0u32, 0);
    loop {
        let libc::sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        match code {
            LOAD_BYTE => accumulator = packet[(k - NETWORK) as usize].into(),
            LOAD_WORD => {
                let from = (k - NETWORK) as usize;
                accumulator = u32::from_be_bytes(packet[from..from + 4].try_into().expect("four bytes"));
            }
            SHIFT_RIGHT => accumulator >>= k,
            JUMP => at += k as usize,
            IS => at += usize::from(if accumulator == k { jt } else { jf }),
            RETURN => return k != 0,
            other => panic!("{other}"),
        }
    }
}

fn packet(from: IpAddr) -> Vec<u8> {
    let mut packet = vec![0; 60];
    match from {
        IpAddr::V4(address) => {
            packet[0] = 0x45;
            packet[12..16].copy_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            packet[0] = 0x60;
            packet[8..24].copy_from_slice(&address.octets());
        }
    }
    packet
}

fn addresses() -> Vec<IpAddr> {
    let four = (0..700u32).map(|number| Ipv4Addr::from(0x0a00_0000 + number * 7).into());
    let six = (0..100u128).map(|number| Ipv6Addr::from(0x2001_0db8_0000_0000_u128 << 64 | number << 65 | 9).into());
    six.chain(four).collect()
}

#[test]
fn the_program_decides_as_the_rule_does() {
    let all = addresses();
    let sources: Vec<Source> = all.iter().copied().map(Source::from).collect();
    // Addresses that look like others' halves.
    let named: Vec<Source> = sources.iter().copied().step_by(3).take(MAX_SOURCES).collect();
    let known: BTreeSet<Source> = named.iter().copied().collect();
    for rule in [
        Rule::AllBut(&named[..30]),
        Rule::AllBut(&named[95..]),
        Rule::Known(&known),
        Rule::Nobody,
    ] {
        let program = program(rule, MAX_SOURCES);
        assert!(program.len() < 4096, "BPF_MAXINSNS");
        for (address, source) in all.iter().zip(&sources) {
            assert_eq!(
                passes(&program, &packet(*address)),
                rule.passes(*source),
                "{address}, {rule:?}"
            );
        }
    }
}

#[test]
fn where_there_is_room_for_few_those_are_named() {
    let known: BTreeSet<Source> = addresses().into_iter().map(Source::from).collect();
    let program = program(Rule::Known(&known), 8);
    let passing = addresses()
        .into_iter()
        .filter(|address| passes(&program, &packet(*address)));
    assert_eq!(passing.count(), 8);
}

#[test]
fn the_kernel_takes_the_largest_program_and_gives_it_up() {
    let all: BTreeSet<Source> = (0..4000).map(Source::V4).chain((0..40).map(Source::V6)).collect();
    let listener = OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    assert!(apply(&listener, Rule::Known(&all), false));
    assert!(apply(&listener, Rule::Nobody, true));
    assert!(!apply(&listener, Rule::AllBut(&[]), true));
}
