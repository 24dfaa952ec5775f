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
    if !admission.rule().passes(address.into()) {
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
    assert_eq!(admission.rule(), Rule::AllBut(&[]));
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
        flood(&mut admission, now, Duration::from_millis(2), 4000);
        now = now.plus(Duration::from_millis(2));
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
    assert!(!admission.is_pressed(), "others have not been kept out");
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
    assert!(matches!(few.rule(), Rule::AllBut(kept_out) if kept_out.len() == 8));
    assert_eq!(ask(&mut few, now, stranger(100_000)), End::In);
    flood(&mut few, now, Duration::from_secs(1), 200);
    assert!(few.is_pressed(), "more than are kept apart");
}

#[test]
fn known_addresses_have_a_rate_too() {
    let mut admission = Admission::new(LIMITS, 7);
    admission.set_known(known(), true);
    let ends = (0..20_000).map(|number| ask(&mut admission, START.plus(GAP * number), known()));
    let inside = ends.filter(|end| *end == End::In).count();
    assert!((1_250..=1_550).contains(&inside), "{inside} in the first second");
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
fn those_who_are_gone_already_use_up_what_strangers_have() {
    let mut admission = Admission::new(LIMITS, 7);
    for _ in 0..199 {
        assert_eq!(admission.arrive(START, None), Verdict::Refuse);
        assert_eq!(admission.rule(), Rule::AllBut(&[]));
    }
    admission.arrive(START, None);
    assert!(matches!(admission.rule(), Rule::Known(_)));
}

#[test]
fn addresses_of_one_site_are_one_source() {
    let source = |text: &str| Source::from(text.parse::<IpAddr>().expect("an address"));
    assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
    assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
    assert_eq!(source("10.0.0.1"), source("::ffff:10.0.0.1"));
    assert_ne!(source("0.0.0.1"), source("0:0:0:1::"));
}
