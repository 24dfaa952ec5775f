use super::*;
use std::net::Ipv4Addr;

const LIMITS: AcceptLimits = AcceptLimits {
    strangers: Rate {
        per_second: 100,
        burst: 200,
    },
    source: Rate {
        per_second: 20,
        burst: 50,
    },
    known: Rate {
        per_second: 1000,
        burst: 500,
    },
};
const START: Time = Time(5_000_000_000);
/// Between two of a flood.
const GAP: Duration = Duration::from_micros(50);

fn stranger(number: u32) -> IpAddr {
    Ipv4Addr::from(0xc000_0200 + number).into()
}

fn known() -> IpAddr {
    "10.0.0.1".parse().expect("an address")
}

/// What became of a request to connect, as the kernel and the driver together decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    In,
    Refused,
    Dropped,
}

fn ask(admission: &mut Admission, now: Time, address: IpAddr) -> End {
    admission.look(now);
    if !admission.rule().passes(address) {
        return End::Dropped;
    }
    match admission.arrive(now, Some(address)) {
        Verdict::Admit => End::In,
        Verdict::Refuse => End::Refused,
    }
}

/// So many of so many addresses in turn come for so long; how they ended: in, refused, dropped.
fn flood(admission: &mut Admission, from: Time, length: Duration, addresses: u32) -> [u64; 3] {
    let mut ends = [0; 3];
    let count = (length.as_nanos() / GAP.as_nanos()) as u32;
    for number in 0..count {
        let end = ask(admission, from.plus(GAP * number), stranger(number % addresses));
        ends[end as usize] += 1;
    }
    ends
}

#[test]
fn a_flood_from_everywhere_gets_its_rate_and_is_dropped_for_the_rest() {
    let mut admission = Admission::new(LIMITS, 7);
    let [first, refused, _] = flood(&mut admission, START, Duration::from_millis(100), 4000);
    assert_eq!(refused, 0, "the rule stands before anybody is above the rate");
    assert!((200..=210).contains(&first), "what was saved up: {first}");
    let mut now = START.plus(Duration::from_millis(100));
    for _ in 0..5 {
        let [inside, refused, dropped] = flood(&mut admission, now, Duration::from_secs(1), 4000);
        assert!((75..=125).contains(&inside), "{inside} in a second");
        assert_eq!(refused, 0);
        assert_eq!(inside + dropped, 20_000);
        assert!(admission.is_pressed());
        now = now.plus(Duration::from_secs(1));
    }
    now = now.plus(CALM);
    admission.look(now);
    assert!(!admission.is_pressed() && admission.due().is_none());
    assert!(admission.rule().is_open());
    let [inside, ..] = flood(&mut admission, now, Duration::from_millis(100), 4000);
    assert!((200..=210).contains(&inside), "the budget is back: {inside}");
}

#[test]
fn known_addresses_come_in_while_strangers_flood() {
    let mut admission = Admission::new(LIMITS, 7);
    admission.set_known(known(), true);
    flood(&mut admission, START, Duration::from_secs(1), 4000);
    let mut now = START.plus(Duration::from_secs(1));
    for _ in 0..500 {
        assert_eq!(ask(&mut admission, now, known()), End::In);
        flood(&mut admission, now, Duration::from_millis(4), 4000);
        now = now.plus(Duration::from_millis(4));
    }
    // Who is not known any more is a stranger as others are.
    admission.set_known(known(), false);
    let inside = (0..1000).filter(|number| {
        let at = now.plus(GAP * *number);
        ask(&mut admission, at, known()) == End::In
    });
    assert!(inside.count() <= 51);
}

#[test]
fn whoever_becomes_known_during_a_flood_changes_the_rule() {
    let mut admission = Admission::new(LIMITS, 7);
    flood(&mut admission, START, Duration::from_millis(100), 4000);
    assert!(admission.take_changed() && !admission.take_changed());
    let now = START.plus(Duration::from_millis(100));
    assert_eq!(ask(&mut admission, now, known()), End::Dropped);
    admission.set_known(known(), true);
    assert!(admission.take_changed());
    admission.set_known(known(), true);
    assert!(!admission.take_changed(), "it was known");
    assert_eq!(ask(&mut admission, now, known()), End::In);
}

#[test]
fn one_address_uses_up_its_own_share_and_others_come_in() {
    let mut admission = Admission::new(LIMITS, 7);
    let mut now = START;
    for round in 0..40 {
        let [inside, refused, dropped] = flood(&mut admission, now, Duration::from_millis(100), 1);
        assert!(inside <= 55 && refused == 0, "round {round}: {inside}, {refused}");
        assert!(dropped >= 1945);
        now = now.plus(Duration::from_millis(100));
        assert_eq!(ask(&mut admission, now, stranger(100_000 + round)), End::In);
    }
    assert!(admission.is_pressed(), "he fills what waits at the socket");
}

#[test]
fn several_addresses_that_flood_are_kept_out_one_by_one_and_many_all_together() {
    let mut few = Admission::new(
        AcceptLimits {
            strangers: Rate {
                per_second: 100_000,
                burst: 100_000,
            },
            ..LIMITS
        },
        7,
    );
    flood(&mut few, START, Duration::from_millis(100), 8);
    let now = START.plus(Duration::from_millis(100));
    assert_eq!(few.kept_out.len(), 8);
    assert_eq!(ask(&mut few, now, stranger(100_000)), End::In);
    let mut is_shut = false;
    for number in 0..100 {
        let step = Duration::from_millis(10);
        flood(&mut few, now.plus(step * number), step, 200);
        is_shut |= few.door == Door::KnownOnly;
    }
    assert!(is_shut, "more than are kept apart");
}

fn node(number: u32) -> IpAddr {
    Ipv4Addr::from(0x0a01_0000 + number).into()
}

#[test]
fn known_addresses_have_a_rate_too() {
    let mut admission = Admission::new(LIMITS, 7);
    for number in 0..100 {
        admission.set_known(node(number), true);
    }
    let ends = (0..20_000).map(|number| ask(&mut admission, START.plus(GAP * number), node(number % 100)));
    let inside = ends.filter(|end| *end == End::In).count();
    assert!((1_250..=1_550).contains(&inside), "{inside} in the first second");
}

#[test]
fn a_known_address_that_floods_has_its_share_and_others_come_in() {
    let mut admission = Admission::new(LIMITS, 7);
    admission.set_known(known(), true);
    for number in 0..20 {
        admission.set_known(node(number), true);
    }
    let mut ends = [0; 3];
    for number in 0..20_000 {
        let now = START.plus(GAP * number);
        ends[ask(&mut admission, now, known()) as usize] += 1;
        if number % 500 == 0 {
            assert_eq!(ask(&mut admission, now, node(number / 500 % 20)), End::In, "a peer");
            assert_eq!(ask(&mut admission, now, stranger(number)), End::In, "a stranger");
        }
    }
    let [inside, refused, dropped] = ends;
    assert!((300..=400).contains(&inside), "{inside} in the first second");
    assert_eq!((refused, inside + dropped), (0, 20_000));
    // While strangers flood too.
    let now = START.plus(GAP * 20_000);
    flood(&mut admission, now, Duration::from_millis(100), 4000);
    let now = now.plus(Duration::from_millis(100));
    for number in 0..2_000 {
        ask(&mut admission, now, known());
        if number % 100 == 0 {
            assert_eq!(ask(&mut admission, now, node(number / 100)), End::In);
        }
    }
    assert_eq!(ask(&mut admission, now, known()), End::Dropped);
}

#[test]
fn a_neighbour_of_a_node_is_a_stranger_and_takes_nothing_from_it() {
    let address = |number: u128| IpAddr::from(std::net::Ipv6Addr::from(0x2001_0db8 << 96 | number));
    let mut admission = Admission::new(LIMITS, 7);
    for number in 0..8 {
        admission.set_known(address(number), true);
    }
    // One of them is known no more: the others are.
    admission.set_known(address(7), false);
    let mut inside = 0;
    for number in 0..20_000 {
        let now = START.plus(GAP * number);
        inside += u32::from(ask(&mut admission, now, address(1000 + u128::from(number))) == End::In);
        if number % 1000 == 0 {
            assert_eq!(
                ask(&mut admission, now, address(u128::from(number / 1000 % 7))),
                End::In
            );
        }
    }
    assert!(inside <= 71, "{inside}: more than one source has");
    let now = START.plus(GAP * 20_000);
    assert!(!admission.rule().passes(address(7)) && !admission.rule().passes(address(5000)));
    // Who becomes known in a network that is kept out comes in.
    assert!(admission.take_changed());
    admission.set_known(address(5000), true);
    assert!(admission.take_changed());
    assert_eq!(ask(&mut admission, now, address(5000)), End::In);
}

#[test]
fn where_many_handshakes_end_while_nobody_is_let_in_those_are_dropped_too() {
    let mut admission = Admission::new(LIMITS, 7);
    flood(&mut admission, START, Duration::from_millis(20), 4000);
    let now = START.plus(Duration::from_millis(20));
    while admission.arrive(now, Some(stranger(0))) == Verdict::Admit {}
    admission.take_changed();
    for _ in 1..MAX_LATE {
        assert_eq!(admission.arrive(now, Some(stranger(0))), Verdict::Refuse);
        assert!(!admission.rule().is_strict() && !admission.take_changed());
    }
    admission.arrive(now, Some(stranger(0)));
    assert!(admission.rule().is_strict() && admission.take_changed());
    admission.look(now.plus(PAUSE));
    assert!(!admission.rule().is_strict() && admission.rule().is_open());
}

#[test]
fn what_was_waiting_when_the_rule_came_is_refused_and_takes_nothing() {
    let mut admission = Admission::new(LIMITS, 7);
    for number in 0..200 {
        assert_eq!(admission.arrive(START, Some(stranger(number))), Verdict::Admit);
    }
    for number in 200..300 {
        assert_eq!(admission.arrive(START, Some(stranger(number))), Verdict::Refuse);
    }
    let now = START.plus(Duration::from_millis(10));
    assert_eq!(
        admission.arrive(now, Some(stranger(300))),
        Verdict::Admit,
        "one has been saved since"
    );
}

#[test]
fn those_of_whom_nobody_knows_whence_use_up_what_strangers_have_and_then_what_known_ones_have() {
    let mut admission = Admission::new(LIMITS, 7);
    for _ in 0..199 {
        assert_eq!(admission.arrive(START, None), Verdict::Refuse);
        assert!(admission.rule().is_open());
    }
    admission.arrive(START, None);
    assert_eq!(admission.door, Door::KnownOnly);
    for _ in 0..499 {
        assert_eq!(admission.arrive(START, None), Verdict::Refuse);
        assert_eq!(admission.door, Door::KnownOnly);
    }
    admission.arrive(START, None);
    assert_eq!(admission.door, Door::Shut);
}

#[test]
fn addresses_of_one_site_are_one_source() {
    let source = |text: &str| Source::from(text.parse::<IpAddr>().expect("an address"));
    assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
    assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
    assert_eq!(source("10.0.0.1"), source("::ffff:10.0.0.1"));
    assert_ne!(source("0.0.0.1"), source("0:0:0:1::"));
}

#[test]
fn neighbours_are_in_places_of_their_own() {
    for salt in [0, 1, 7, 1 << 40, 1 << 56, u64::MAX] {
        let admission = Admission::new(LIMITS, salt);
        let places: std::collections::BTreeSet<usize> = (0..256).map(|number| admission.place(number << 64)).collect();
        assert!(places.len() > 128, "{} of 256", places.len());
    }
}
