use super::*;
use crate::admission::{AcceptLimits, Admission, Rate};
use crate::driver::Time;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

const ACK: u8 = 0x10;

/// Runs a program as the kernel does, on a packet that begins with its IP header, before that of TCP: does it pass?
fn passes(program: &[libc::sock_filter], (packet, segment): &(Vec<u8>, Vec<u8>)) -> bool {
    let (mut accumulator, mut at) = (0u32, 0);
    loop {
        let libc::sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let (bytes, from) = match k >= NETWORK {
            true => (packet, (k.wrapping_sub(NETWORK)) as usize),
            false => (segment, k as usize),
        };
        match code {
            LOAD_BYTE => accumulator = bytes[from].into(),
            LOAD_WORD => accumulator = u32::from_be_bytes(bytes[from..from + 4].try_into().expect("four bytes")),
            SHIFT_RIGHT => accumulator >>= k,
            AND => accumulator &= k,
            JUMP => at += k as usize,
            IS => at += usize::from(if accumulator == k { jt } else { jf }),
            RETURN => return k != 0,
            other => panic!("{other}"),
        }
    }
}

/// With these flags of TCP.
fn packet(from: IpAddr, flags: u8) -> (Vec<u8>, Vec<u8>) {
    let (mut packet, mut segment) = (vec![0; 60], vec![0xff; 20]);
    segment[13] = flags;
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
    (packet, segment)
}

fn request(from: IpAddr) -> (Vec<u8>, Vec<u8>) {
    // With those of ECN (RFC 3168, section 6.1.1).
    packet(from, 0xc2)
}

/// Neighbours, and addresses that look like others' halves.
fn addresses() -> Vec<IpAddr> {
    let four = (0..700u32).map(|number| Ipv4Addr::from(0x0a00_0000 + number * 7).into());
    let six = (0..100u128).map(|number| Ipv6Addr::from(0x2001_0db8_0000_0000_u128 << 64 | number << 65 | 9).into());
    let near = (0..40u128).map(|number| Ipv6Addr::from(0x2001_0db8_0000_0000_u128 << 64 | number << 31 | 9).into());
    six.chain(near).chain(four).collect()
}

const fn rate(per_second: u32, burst: u32) -> Rate {
    Rate { per_second, burst }
}

/// Every third address is known, one of those floods, and so do so many strangers of their own network.
fn admission(strangers: u32, own: u32) -> Admission {
    let limits = AcceptLimits {
        strangers: rate(strangers, strangers),
        source: rate(own, own),
        known: rate(40, 40),
    };
    let mut admission = Admission::new(limits, 7);
    for address in addresses().into_iter().step_by(3) {
        admission.set_known(address, true);
    }
    admission
}

#[test]
fn the_program_decides_as_the_rule_does() {
    let all = addresses();
    let now = Time(5_000_000_000);
    let (mut some, mut known_only, mut nobody) = (admission(1000, 2), admission(1, 1), admission(1, 1));
    for address in [all[1], all[101], all[142], all[3], all[201], all[102]] {
        for _ in 0..12 {
            some.arrive(now, Some(address));
        }
    }
    known_only.arrive(now, Some(all[1]));
    for address in &all {
        nobody.arrive(now, Some(*address));
        nobody.arrive(now, Some(*address));
    }
    for _ in 0..12 {
        known_only.arrive(now, Some(all[201]));
    }
    for (admission, least, most) in [(some, 300, 839), (known_only, 200, 300), (nobody, 0, 0)] {
        let rule = admission.rule();
        let (list, others) = rule.list();
        let program = program(&list, others, false);
        assert!(program.len() < 4096, "BPF_MAXINSNS");
        let mut passing = 0;
        for address in &all {
            let is_let_in = passes(&program, &request(*address));
            assert_eq!(is_let_in, rule.passes(*address), "{address}, {rule:?}");
            passing += usize::from(is_let_in);
            assert!(passes(&program, &packet(*address, ACK)), "what has begun");
        }
        assert!((least..=most).contains(&passing), "{passing} of {}", all.len());
    }
}

#[test]
fn a_strict_program_drops_what_completes_a_handshake_too() {
    let [inside, outside] = [addresses()[0], addresses()[1]];
    let program = program(&[(Named::Address(inside), true)], false, true);
    assert!(passes(&program, &packet(inside, ACK)) && passes(&program, &request(inside)));
    assert!(!passes(&program, &packet(outside, ACK)) && !passes(&program, &request(outside)));
}

/// Only known addresses pass, which are so many.
fn known_only(known: impl Iterator<Item = IpAddr>) -> Admission {
    let mut admission = admission(1, 1);
    for address in known {
        admission.set_known(address, true);
    }
    admission.arrive(Time(5_000_000_000), Some("192.0.2.1".parse().expect("an address")));
    assert!(!admission.rule().is_open());
    admission
}

#[test]
fn where_there_is_room_for_few_those_are_named_who_have_been_known_for_longest() {
    let late = (0..2000u32).map(|number| Ipv4Addr::from(0x0900_0000 + number).into());
    let admission = known_only(late);
    let (list, others) = admission.rule().list();
    let program = program(&list[..280], others, false);
    let first = addresses().into_iter().step_by(3);
    assert_eq!(
        first.filter(|address| passes(&program, &request(*address))).count(),
        280
    );
}

#[test]
fn the_kernel_takes_as_much_as_it_can_and_gives_it_up() {
    let listener = OwnedFd::from(TcpListener::bind("127.0.0.1:0").expect("a port"));
    let four = known_only((0..4000u32).map(|number| Ipv4Addr::from(0x0900_0000 + number).into()));
    let six = known_only((0..4000u128).map(|number| Ipv6Addr::from(0x2001_0db9_u128 << 96 | number).into()));
    for admission in [&four, &six, &four] {
        let (list, _) = admission.rule().list();
        let first = apply(&listener, admission.rule(), false);
        assert!(
            first.filtered && first.left_out > 3000 && first.left_out < list.len() - 100,
            "{first:?}"
        );
        // There is room for as many where one has that already.
        assert_eq!(apply(&listener, admission.rule(), true), first);
        sys::detach_filter(&listener).expect("it has one");
    }
    let mut few = admission(1000, 1);
    assert_eq!(apply(&listener, few.rule(), false), Applied::default());
    few.arrive(Time(5_000_000_000), Some(addresses()[1]));
    let one = Applied {
        filtered: true,
        left_out: 0,
    };
    assert_eq!(apply(&listener, few.rule(), false), one);
    assert_eq!(apply(&listener, admission(1, 1).rule(), true), Applied::default());
}

/// The kernel holds what has begun: until the other end, which believes that it is connected, sends something (`TCP_DEFER_ACCEPT`, tcp(7)).
#[test]
fn what_completes_a_handshake_that_began_before_passes_unless_it_is_strict() {
    for is_strict in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let listener = OwnedFd::from(listener);
        sys::set_option(&listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 30).expect("deferred");
        let mut client = TcpStream::connect(address).expect("connected");
        sys::attach_filter(&listener, &program(&[], false, is_strict)).expect("a filter");
        client.write_all(b"here").expect("sent");
        let patience = if is_strict { 300 } else { 20_000 };
        let has_come = sys::wait_readable(&listener, Duration::from_millis(patience));
        assert_eq!(has_come, !is_strict);
        if has_come {
            // A new one does not come in.
            let listener = TcpListener::from(listener);
            let (mut stream, _) = listener.accept().expect("accepted");
            let mut heard = [0; 4];
            stream.read_exact(&mut heard).expect("what was sent");
            assert!(TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_err());
            assert!(listener.as_raw_fd() >= 0);
        }
    }
}
