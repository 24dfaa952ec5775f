use super::*;
use crate::check::tests::facts;
use amita_types::NodeId;

fn shown(fingerprint: &str, begins: u64, ends: u64) -> Shown {
    Shown {
        fingerprint: fingerprint.to_owned(),
        begins,
        ends,
        ..Shown::default()
    }
}

#[test]
fn what_ends_first_comes_first_and_an_authority_once() {
    let mut facts = facts();
    let at = facts.at;
    let nodes = facts.status.nodes.len();
    for (number, told) in &mut facts.inventories {
        let Known::Is(told) = told else { continue };
        let Known::Is(Some(own)) = &mut told.certificate else {
            panic!("each has one")
        };
        own.what = Some(shown(
            &number.to_string(),
            at - 5 * DAY_S,
            at + 2 * DAY_S + u64::from(number.0),
        ));
        own.authorities = vec![shown("root", at - DAY_S, at + 2000 * DAY_S)];
        own.browser = (*number == NodeId(1)).then(|| shown("web", at - DAY_S, at - 1));
    }
    let found = certificates(&facts);
    let kinds: Vec<Usage> = found.used.iter().map(|used| used.usage).collect();
    let mut expected = vec![Usage::Browser];
    expected.extend(vec![Usage::Identity; nodes]);
    expected.push(Usage::Authority);
    assert_eq!(kinds, expected);
    assert_eq!(found.used[0].standing, Standing::Ended);
    assert_eq!(found.used[1].standing, Standing::Due, "less than a third is left");
    let authority = found.used.last().unwrap();
    assert_eq!((authority.node_count, authority.standing), (nodes, Standing::Well));
    assert!(found.not_known.is_empty());
}

#[test]
fn of_whom_nothing_is_known_is_said() {
    let mut facts = facts();
    facts.inventories.remove(&NodeId(2));
    match facts.inventories.get_mut(&NodeId(1)) {
        Some(Known::Is(told)) => told.certificate = Known::Is(None),
        other => panic!("{other:?}"),
    }
    let found = certificates(&facts);
    assert_eq!(found.used.len(), facts.status.nodes.len() - 2);
    let whys: Vec<&str> = found.not_known.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(whys[0], "the node has no identity");
    assert!(whys[1].contains("has not told"), "{whys:?}");
}

#[test]
fn how_long_is_long_enough_hangs_on_what_it_is_for() {
    let of = |usage, days: u64| Standing::of(usage, (0, 100 * DAY_S), (100 - days) * DAY_S);
    for (usage, days, standing) in [
        (Usage::Identity, 50, Standing::Well),
        (Usage::Identity, 33, Standing::Due),
        (Usage::Identity, 9, Standing::Late),
        (Usage::Identity, 0, Standing::Ended),
        (Usage::Browser, 31, Standing::Well),
        (Usage::Browser, 29, Standing::Due),
        (Usage::Browser, 6, Standing::Late),
        (Usage::Authority, 100, Standing::Due),
        (Usage::Authority, 29, Standing::Late),
    ] {
        assert_eq!(of(usage, days), standing, "{usage:?}, {days} days");
    }
}
