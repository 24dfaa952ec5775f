//! Places, and what is wanted of them.

use super::*;
use crate::USUAL_NAME;

const SITE: &str = "topology.csi.amita.io/site";
const RACK: &str = "topology.csi.amita.io/rack";

fn of(pairs: &[(&str, &str)]) -> Topology {
    let owned = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Topology {
        segments: owned.collect(),
    }
}

fn places(all: &[(&str, &str)]) -> BTreeSet<Place> {
    let place = |(site, rack): &(&str, &str)| Place {
        site: (*site).to_owned(),
        rack: (*rack).to_owned(),
    };
    all.iter().map(place).collect()
}

fn wanted(requisite: &[Topology], preferred: &[Topology]) -> Requirement {
    Requirement::read(USUAL_NAME, requisite, preferred)
}

#[test]
fn a_node_reports_where_it_stands() {
    let driver = Driver::new(USUAL_NAME).expect("a name");
    let told = |site, zone, rack| Standing::new(site, zone, rack).map(|found| found.topology(&driver));
    assert_eq!(told("berlin", "", ""), Ok(of(&[(SITE, "berlin")])));
    assert_eq!(told("berlin", "", "r1"), Ok(of(&[(SITE, "berlin"), (RACK, "r1")])));
    assert_eq!(told("", "eu-1a", ""), Ok(of(&[(SITE, "eu-1a"), (ZONE, "eu-1a")])));
    assert_eq!(told("eu-1a", "eu-1a", ""), told("", "eu-1a", ""));
    for (site, zone, rack, why) in [
        ("", "", "r1", "neither its site nor its zone"),
        ("a", "b", "", "they are one"),
        ("a b", "", "", "site"),
        ("a", "", "-r", "rack"),
        (&"x".repeat(64) as &str, "", "", "label"),
    ] {
        let said = told(site, zone, rack).expect_err("refused");
        assert!(said.contains(why), "{said}");
    }
    let file = "# row 3\nsite=berlin\n\nrack = r1\n";
    assert_eq!(Standing::read(file), Standing::new("berlin", "", "r1"));
    assert!(Standing::read("room=3").is_err_and(|why| why.contains("room=3")));
    assert!(Standing::read("rack=r1").is_err());
}

#[test]
fn what_is_required_is_a_must_only_where_volumes_are_bound_to_a_place() {
    let here = places(&[("a", "r1"), ("a", "r2"), ("b", "r1")]);
    let at_a = wanted(&[of(&[(SITE, "a"), (RACK, "r9"), (ZONE, "a")])], &[]);
    let at_c = wanted(&[of(&[(ZONE, "c")])], &[]);
    for (requirement, reach, fits) in [
        (&at_a, Reach::Site, true),
        (&at_a, Reach::Rack, false),
        (&at_a, Reach::Everywhere, true),
        (&at_c, Reach::Site, false),
        (&at_c, Reach::Everywhere, true),
        (&wanted(&[], &[of(&[(SITE, "c")])]), Reach::Site, true),
        // A rack is one of its site.
        (&wanted(&[of(&[(SITE, "b"), (RACK, "r2")])], &[]), Reach::Rack, false),
        // Keys of another driver, and two sites at once.
        (&wanted(&[of(&[("topology.other/site", "a")])], &[]), Reach::Site, false),
        (&wanted(&[of(&[(SITE, "a"), (ZONE, "b")])], &[]), Reach::Site, false),
        (
            &wanted(&[of(&[("Topology.CSI.amita.io/Site", "a")])], &[]),
            Reach::Site,
            true,
        ),
    ] {
        assert_eq!(requirement.allows(&here, reach), fits, "{requirement:?} {reach:?}");
    }
    assert!(
        !Requirement::default().allows(&places(&[("", "")]), Reach::Site),
        "no site is named"
    );
    assert!(
        !Requirement::default().allows(&places(&[("a", "")]), Reach::Rack),
        "no rack is named"
    );
}

#[test]
fn what_is_preferred_comes_first_and_the_rack_before_the_site() {
    let requirement = wanted(
        &[of(&[(SITE, "a")]), of(&[(SITE, "b")]), of(&[(SITE, "c")])],
        &[of(&[(SITE, "b"), (RACK, "r1")]), of(&[(SITE, "a"), (RACK, "r1")])],
    );
    let far = |all: &[(&str, &str)]| requirement.distance(&places(all));
    let order = [
        far(&[("b", "r1")]),
        far(&[("b", "r2")]),
        far(&[("a", "r1")]),
        far(&[("c", "r1")]),
        far(&[("d", "r1")]),
    ];
    assert!(
        order.is_sorted() && order.windows(2).all(|two| two[0] != two[1]),
        "{order:?}"
    );
}

#[test]
fn a_volume_is_told_to_be_where_it_is_wanted() {
    let here = places(&[("a", "r1"), ("a", "r2"), ("b", "r1"), ("", "")]);
    let told = |requirement: &Requirement, reach| requirement.accessible(USUAL_NAME, &here, reach);
    let (a, b) = (of(&[(SITE, "a")]), of(&[(SITE, "b")]));
    assert_eq!(told(&Requirement::default(), Reach::Everywhere), []);
    assert_eq!(told(&Requirement::default(), Reach::Site), [a.clone(), b.clone()]);
    // All that is required has it: it may be elsewhere, too.
    assert_eq!(
        told(&wanted(std::slice::from_ref(&a), &[]), Reach::Site),
        [a.clone(), b]
    );
    let elsewhere = of(&[(SITE, "c")]);
    assert_eq!(told(&wanted(&[a.clone(), elsewhere], &[]), Reach::Site), [a]);
    let rack = |site, rack| of(&[(SITE, site), (RACK, rack)]);
    assert_eq!(
        told(&wanted(&[rack("a", "r2"), rack("b", "r7")], &[]), Reach::Rack),
        [rack("a", "r2")]
    );
}
