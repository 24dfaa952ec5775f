use super::*;
use crate::testing::{catalog, port, target, unit};
use crate::unit::{Access, Alua, Space};
use amita_frontend::reservation::{Command, Kind};
use amita_types::VolumeId;
use proptest::prelude::*;

fn session() -> Nexus {
    Nexus::new(port(1), 1)
}

fn told(nexus: &mut Nexus, number: u16) -> Vec<Code> {
    std::iter::from_fn(|| nexus.take_attention(number)).collect()
}

/// A catalog with the next revision and such units.
fn next(nexus: &mut Nexus, revision: u64, units: Vec<Unit>) {
    let mut catalog = catalog();
    catalog.revision = revision;
    nexus.observe(&catalog, &target(units));
}

#[test]
fn a_new_session_is_told_of_a_reset_of_each_unit() {
    let mut nexus = session();
    next(&mut nexus, 1, vec![unit(0), unit(3)]);
    assert_eq!(told(&mut nexus, 0), [code::POWER_ON_OR_RESET]);
    assert!(told(&mut nexus, 0).is_empty());
    assert!(nexus.has_attention(3) && !nexus.has_attention(0) && !nexus.has_attention(1));
}

#[test]
fn what_changes_is_told_once() {
    let mut nexus = session();
    next(&mut nexus, 1, vec![unit(0)]);
    told(&mut nexus, 0);
    let mut changed = unit(0);
    changed.size_bytes *= 2;
    changed.access[0].1 = Alua::NonOptimized;
    changed.space = Some(Space {
        used_bytes: 90,
        total_bytes: 100,
        warning_percent: 80,
    });
    let expected = [
        code::CAPACITY_CHANGED,
        code::ASYMMETRIC_ACCESS_CHANGED,
        code::THIN_SOFT_THRESHOLD,
    ];
    next(&mut nexus, 2, vec![changed.clone()]);
    assert_eq!(told(&mut nexus, 0), expected);
    next(&mut nexus, 3, vec![changed.clone()]);
    assert!(told(&mut nexus, 0).is_empty());
    // Again only after it was better.
    changed.space = None;
    next(&mut nexus, 4, vec![changed.clone()]);
    changed.space = Some(Space {
        used_bytes: 80,
        total_bytes: 100,
        warning_percent: 80,
    });
    next(&mut nexus, 5, vec![changed]);
    assert_eq!(told(&mut nexus, 0), [code::THIN_SOFT_THRESHOLD]);
}

#[test]
fn another_inventory_is_told_by_every_unit_and_forgotten_by_all() {
    let mut nexus = session();
    next(&mut nexus, 1, vec![unit(0), unit(1)]);
    told(&mut nexus, 0);
    told(&mut nexus, 1);
    next(&mut nexus, 2, vec![unit(0), unit(1), unit(2)]);
    assert_eq!(
        told(&mut nexus, 2),
        [code::POWER_ON_OR_RESET, code::REPORTED_LUNS_CHANGED]
    );
    assert!(!nexus.has_attention(0) && !nexus.has_attention(1), "told once, told");
    next(&mut nexus, 3, vec![unit(1), unit(2)]);
    assert!(nexus.has_attention(1) && nexus.has_attention(2) && !nexus.has_attention(0));
    nexus.forget_inventory();
    assert!(!nexus.has_attention(1) && !nexus.has_attention(2));
    // Another volume under the same number is another unit.
    let mut other = unit(1);
    other.uuid = [9; 16];
    next(&mut nexus, 4, vec![other, unit(2)]);
    let expected = [
        code::POWER_ON_OR_RESET,
        code::INQUIRY_DATA_CHANGED,
        code::REPORTED_LUNS_CHANGED,
    ];
    assert_eq!(told(&mut nexus, 1), expected);
}

#[test]
fn a_mask_hides_units_and_their_news() {
    let mut nexus = session();
    let mut target = target(vec![unit(0), unit(1)]);
    target.initiators = vec![Arc::new(Access {
        name: port(1).name.to_string(),
        mask: Some(vec![1]),
    })];
    nexus.observe(&catalog(), &target);
    assert!(nexus.has_attention(1) && !nexus.has_attention(0));
}

#[test]
fn notices_of_reservations() {
    let (mine, other) = (port(1).key(1), HostKey(77));
    let mut state = State::default();
    let register = |host_id, key| Command::Register {
        host_id,
        key,
        ignore_key: false,
        persist: None,
    };
    state.apply(mine, &register([1; 16], 5)).expect("registered");
    state.apply(other, &register([2; 16], 6)).expect("registered");
    let kind = Kind::WriteExclusiveRegistrants;
    state
        .apply(other, &Command::Acquire { key: 6, kind })
        .expect("reserved");
    let mut nexus = session();
    let look = |nexus: &mut Nexus, revision, state: &State| {
        let mut catalog = catalog();
        catalog.revision = revision;
        catalog.reservations.insert(VolumeId(1), Arc::new(state.clone()));
        nexus.observe(&catalog, &target(vec![unit(0)]));
    };
    look(&mut nexus, 1, &state);
    assert_eq!(told(&mut nexus, 0), [code::POWER_ON_OR_RESET]);
    state
        .apply(other, &Command::Release { key: 6, kind })
        .expect("released");
    look(&mut nexus, 2, &state);
    assert_eq!(told(&mut nexus, 0), [code::RESERVATIONS_RELEASED]);
    state.apply(other, &Command::Clear { key: 6 }).expect("cleared");
    look(&mut nexus, 3, &state);
    assert_eq!(told(&mut nexus, 0), [code::RESERVATIONS_PREEMPTED]);
}

#[test]
fn a_reset_says_all_and_takes_choices_back() {
    let mut nexus = session();
    next(&mut nexus, 1, vec![unit(0), unit(1)]);
    told(&mut nexus, 0);
    nexus.happened(Some(0), Happening::Cleared);
    nexus.happened(Some(0), Happening::Lost);
    assert_eq!(told(&mut nexus, 0), [code::NEXUS_LOSS, code::COMMANDS_CLEARED]);
    nexus.happened(Some(0), Happening::Cleared);
    nexus.happened(None, Happening::Reset);
    assert_eq!(told(&mut nexus, 0), [code::DEVICE_RESET]);
    assert_eq!(told(&mut nexus, 1), [code::POWER_ON_OR_RESET], "which says more");
}

#[test]
fn keys_tell_nexuses_apart() {
    let one = port(1);
    assert_ne!(one.key(1), one.key(2), "another target port");
    assert_ne!(one.key(1), port(2).key(1), "another session");
    assert_ne!(one.key(1), HostKey::NONE);
    assert_eq!(one.key(1), port(1).key(1));
    assert_eq!(one.port_name(), "iqn.2026-01.test:host,i,0x400000000001");
}

proptest! {
    #[test]
    fn attentions_stay_few_and_resets_come_first(codes in proptest::collection::vec((0x28_u8..0x40, 0_u8..16), 0..100)) {
        let mut attentions = Attentions::default();
        for (asc, ascq) in codes {
            attentions.raise(Code(asc, ascq));
        }
        let told: Vec<Code> = std::iter::from_fn(|| attentions.take()).collect();
        prop_assert!(told.len() <= MAX_ATTENTIONS + 2);
        let others = told.iter().position(|code| code.0 != 0x29).unwrap_or(told.len());
        prop_assert!(told[others..].iter().all(|code| code.0 != 0x29));
    }
}
