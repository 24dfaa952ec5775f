use super::*;

const SECOND: u64 = 1_000_000_000;

fn plea(excuse: Excuse, since: u64, at: u64, node: Member) -> Plea {
    Plea {
        excuse,
        since: Time(since),
        at: Time(at),
        volume: Some(0),
        node,
    }
}

#[test]
fn without_a_cause_nothing_is_let_pass() {
    let mut ledger = Ledger::new(false, Duration::ZERO);
    ledger.raised(Time(5), 0, 1, None);
    let all = [
        Excuse::Lost,
        Excuse::Unavailable,
        Excuse::GaveUp,
        Excuse::TakenOver,
        Excuse::Damaged,
        Excuse::NoSpace,
        Excuse::StoreFailed,
        Excuse::Blocked,
        Excuse::StaysOut,
        Excuse::DamagedCopy,
        Excuse::Unopened,
        Excuse::Unread,
        Excuse::NotGrown,
        Excuse::Unsure,
        Excuse::CarriedOutAgain,
    ];
    for excuse in all {
        let refused = ledger.excuse(plea(excuse, 10, 20, 1), u64::MAX);
        assert!(refused.is_err(), "{excuse:?}");
    }
}

#[test]
fn a_cause_explains_what_is_in_its_time_and_of_its_nodes() {
    let mut ledger = Ledger::new(false, Duration::ZERO);
    ledger.injected(
        Time(100 * SECOND),
        &Fault::Freeze {
            node: 2,
            for_ns: SECOND,
        },
    );
    let late = |at: u64| plea(Excuse::GaveUp, at, at + SECOND, 0);
    assert!(ledger.excuse(late(100 * SECOND), bit(0) | bit(2)).is_ok());
    assert!(ledger.excuse(late(100 * SECOND), bit(0) | bit(1)).is_err(), "others");
    assert!(ledger.excuse(late(98 * SECOND), bit(2)).is_err(), "before");
    assert!(ledger.excuse(late(114 * SECOND), bit(2)).is_err(), "long after");
    let damaged = plea(Excuse::Damaged, 100 * SECOND, 101 * SECOND, 2);
    assert!(ledger.excuse(damaged, bit(2)).is_err(), "of another kind");
}

#[test]
fn a_volume_is_lost_to_somebody() {
    let mut ledger = Ledger::new(false, Duration::ZERO);
    let lost = plea(Excuse::Lost, 10, 50, 1);
    ledger.raised(Time(20), 0, 1, Some(0));
    assert!(ledger.excuse(lost, 0).is_err(), "it has opened it for itself");
    ledger.raised(Time(40), 0, 2, Some(1));
    assert!(ledger.excuse(lost, 0).is_ok());
    ledger.raised(Time(60), 0, 1, Some(2));
    let again = plea(Excuse::Lost, 55, 70, 1);
    assert!(ledger.excuse(again, 0).is_err(), "it has it again, and nobody since");
}

#[test]
fn what_heals_is_no_cause_any_more_and_what_rots_stays_one() {
    let mut ledger = Ledger::new(false, Duration::ZERO);
    ledger.injected(Time(0), &Fault::MetadataAway { for_ns: 3600 * SECOND });
    ledger.rotted(Time(0), 1);
    ledger.healed(Time(10 * SECOND));
    let at = 100 * SECOND;
    assert!(ledger.excuse(plea(Excuse::Unavailable, at, at, 0), u64::MAX).is_err());
    assert!(ledger.excuse(plea(Excuse::Damaged, at, at, 1), bit(1)).is_ok());
    assert!(ledger.is_rotten(1) && !ledger.is_rotten(0));
}

#[test]
fn a_campaign_is_over_its_ceiling_though_every_case_had_a_cause() {
    for row in ROWS {
        let mut coverage = Coverage::new();
        coverage.add("run.played", LEAST_RUNS);
        if !row.causes.contains(&"cause.troubles") {
            // Enough for those that are causes themselves.
            coverage.add("cause.troubles", 1_000_000);
        }
        coverage.add(row.causes[0], 100);
        let ceiling = (coverage.count(row.causes[0]) * row.percent).div_ceil(100);
        coverage.add(row.excuse, ceiling);
        assert!(table(&coverage).1, "{}", row.excuse);
        coverage.hit(row.excuse);
        let (text, within) = table(&coverage);
        assert!(!within && text.contains("OVER ITS CEILING"), "{text}");
    }
}

#[test]
fn who_stood_still_hears_late_of_a_disk_that_failed() {
    let failed = plea(Excuse::StoreFailed, 40 * SECOND, 40 * SECOND, 2);
    let errors = Fault::DiskErrors {
        node: 2,
        per_mille: 100,
        for_ns: SECOND,
    };
    let freeze = |node| Fault::CoreFreeze {
        node,
        core: 0,
        for_ns: 29 * SECOND,
    };
    for (begins, node, explained) in [(10, 2, true), (10, 1, false), (12, 2, false), (4, 2, false)] {
        let mut ledger = Ledger::new(false, Duration::ZERO);
        ledger.injected(Time(10 * SECOND), &errors);
        ledger.injected(Time(begins * SECOND), &freeze(node));
        let met = ledger.excuse(failed, bit(2));
        assert_eq!(met.is_ok(), explained, "from {begins} s, node {node}: {met:?}");
    }
}

#[test]
fn polite_hosts_have_a_volume_when_others_have_closed_it() {
    let at = |seconds: u64| Time(seconds * SECOND);
    for polite in [true, false] {
        let mut ledger = Ledger::new(false, Duration::ZERO).polite(polite);
        ledger.raised(at(0), 0, 0, None);
        ledger.moved(at(1));
        ledger.wanted(at(1), 0, 1);
        let taken = |ledger: &mut Ledger, seconds, volume, by, before| {
            let plea = ledger
                .raised(at(seconds), volume, by, Some(before))
                .expect("it was owned");
            ledger.excuse(plea, u64::MAX).is_ok()
        };
        assert!(!taken(&mut ledger, 100, 0, 2, 0), "by whom nobody wants it");
        assert!(!taken(&mut ledger, 100, 1, 1, 0), "another volume");
        assert_eq!(taken(&mut ledger, 110, 0, 1, 2), polite);
        assert!(!taken(&mut ledger, 120, 0, 1, 1), "once");
    }
}
