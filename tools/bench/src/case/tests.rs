use super::{Case, Extent, Filter, Front, Load, Mix, Order, Placement, matrix};
use std::collections::HashSet;

#[test]
fn names_are_dotted_paths_that_stay() {
    let mut case = Case::new(Front::Libamita, Mix::Write, 32);
    assert_eq!(case.key(), "libamita.write.4k.qd32");
    (case.placement, case.order) = (Placement::OneCore, Order::Sequential);
    (case.block_bytes, case.volumes) = (1 << 20, 4);
    assert_eq!(case.key(), "libamita.write.1m.seq.qd32.v4.one_core");
    let mut case = Case::new(Front::Libamita, Mix::Read, 1);
    let (percent, rate) = (70, 123_456.7);
    case.load = Some(Load { percent, rate });
    assert_eq!(case.key(), "libamita.read.4k.load70");
}

#[test]
fn the_full_matrix_is_what_is_promised_and_no_point_stands_twice() {
    let cases = matrix(Extent::Full, &Filter::default());
    // Two clients, two placements, two numbers of volumes; four sizes, three mixes, two orders, four depths.
    assert_eq!(cases.len(), 2 * 2 * 2 * 4 * 3 * 2 * 4);
    let keys: HashSet<String> = cases.iter().map(Case::key).collect();
    assert_eq!(keys.len(), cases.len());
}

#[test]
fn the_short_matrix_is_part_of_the_full_one() {
    let full: HashSet<String> = matrix(Extent::Full, &Filter::default()).iter().map(Case::key).collect();
    let short = matrix(Extent::Short, &Filter::default());
    assert!(short.len() <= 24, "{} cases are not short", short.len());
    assert!(short.iter().all(|case| full.contains(&case.key())));
}

#[test]
fn a_filter_chooses_and_adds_what_it_names() {
    let filter = Filter {
        front: vec![Front::Nbd],
        block: vec![8192],
        mix: vec![Mix::Mixed],
        depth: vec![4, 128],
        ..Filter::default()
    };
    let cases = matrix(Extent::Short, &filter);
    let keys: Vec<String> = cases.iter().map(Case::key).collect();
    assert_eq!(keys, ["nbd.mixed.8k.qd4", "nbd.mixed.8k.qd128"]);
    assert!(cases.iter().all(|case| filter.lets(case)));
    assert!(!filter.lets(&Case::new(Front::Libamita, Mix::Read, 4)));
}

#[test]
fn a_case_travels_as_json() {
    let case = Case::new(Front::Nbd, Mix::Mixed, 1);
    let text = serde_json::to_string(&case).expect("JSON");
    assert!(text.contains(r#""placement":"two_cores""#), "{text}");
    assert_eq!(serde_json::from_str::<Case>(&text).expect("read back"), case);
}
