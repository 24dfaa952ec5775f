use super::*;
use proptest::prelude::*;

fn everything(_: &Object) -> bool {
    true
}

fn figures() -> impl Strategy<Value = Figures> {
    let one = (0..Metric::ALL.len(), 1..=u64::MAX).prop_map(|(at, number)| {
        let metric = Metric::ALL[at];
        (metric, of_kind(metric, number))
    });
    proptest::collection::btree_map(0..100_u8, one, 0..6).prop_map(|all| Figures(all.into_values().collect()))
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        Just(Object::Node),
        any::<u128>().prop_map(|id| Object::Store(StoreId(id))),
        any::<u32>().prop_map(Object::Core),
        "[a-zä-ü]{1,12}".prop_map(Object::Volume),
        Just(Object::Rest),
    ]
}

proptest! {
    #[test]
    fn what_has_room_is_read_as_it_was(objects in proptest::collection::btree_map(object(), figures(), 0..12)) {
        let frame = Frame { at: 600, covered_ms: 10_000, objects: objects.into_iter().collect() };
        let body = frame.write(1 << 20);
        let mut found = read(&body, &everything).unwrap();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        prop_assert_eq!(found, frame.objects);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes, &everything);
    }

    #[test]
    fn no_page_is_longer_than_its_room_and_no_io_is_lost(
        objects in proptest::collection::btree_map(object(), figures(), 0..60),
        room in 1_600..6_000_usize,
    ) {
        let frame = Frame { at: 0, covered_ms: 10_000, objects: objects.into_iter().collect() };
        let body = frame.write(room);
        prop_assert!(body.len() <= room);
        let found = read(&body, &everything).unwrap();
        let of_volumes = |objects: &[(Object, Figures)]| {
            let volumes = objects.iter().filter(|(object, _)| matches!(object, Object::Volume(_) | Object::Rest));
            volumes.map(|(_, figures)| match figures.0.get(&Metric::Iops) {
                Some(Value::Rate { sum, .. }) => u128::from(*sum),
                _ => 0,
            }).sum::<u128>().min(u128::from(u64::MAX))
        };
        let fixed = frame.fixed_bytes(3);
        if fixed + 1_400 < room {
            prop_assert_eq!(of_volumes(&found).min(u128::from(u64::MAX)), of_volumes(&frame.objects));
        }
    }
}

fn busy(ios: u64) -> Figures {
    let rate = |sum| Value::Rate {
        sum,
        max_milli: sum * 100,
    };
    let latency = Value::Latency(Buckets::of((20..60).map(|at| (at, ios / 40 + 1)), ios * 1000));
    Figures(
        [
            (Metric::Iops, rate(ios)),
            (Metric::Bytes, rate(ios * 4096)),
            (Metric::ReadLatency, latency),
        ]
        .into(),
    )
}

#[test]
fn the_busiest_volumes_have_names_and_the_others_are_the_rest() {
    let volumes = (1..=300).map(|n| (Object::Volume(format!("v{n}")), busy(n * 100)));
    let frame = Frame {
        objects: volumes.collect(),
        ..Frame::default()
    };
    let found = read(&frame.write(4096 - 32), &everything).unwrap();
    let named = found.len() - 1;
    assert!((15..60).contains(&named), "{named} have a name");
    for (at, (object, figures)) in found.iter().take(named).enumerate() {
        let n = 300 - at as u64;
        assert_eq!((object, figures), (&Object::Volume(format!("v{n}")), &busy(n * 100)));
    }
    let rest = &found.last().unwrap();
    let left: u64 = (1..=300 - named as u64).map(|n| n * 100).sum();
    assert_eq!(rest.0, Object::Rest);
    assert!(matches!(rest.1.0[&Metric::Iops], Value::Rate { sum, .. } if sum == left));
    let Value::Latency(buckets) = &rest.1.0[&Metric::ReadLatency] else {
        panic!("no histogram")
    };
    assert_eq!(buckets.sum_ns(), left * 1000);
}

#[test]
fn many_stores_are_told_less_exactly_before_any_is_left_out() {
    let store = |n: u32| (Object::Store(StoreId(n.into())), busy(1000));
    let frame = |count| Frame {
        objects: (0..count).map(store).collect(),
        ..Frame::default()
    };
    let found = read(&frame(40).write(4064), &everything).unwrap();
    assert_eq!(found.len(), 40);
    let Value::Latency(buckets) = &found[0].1.0[&Metric::ReadLatency] else {
        panic!("no histogram")
    };
    assert!(buckets.counts().len() < 40, "it is coarser");
    assert_eq!(buckets.count(), 40 * 26);
    let found = read(&frame(1000).write(4064), &everything).unwrap();
    assert!((50..1000).contains(&found.len()), "{}", found.len());
}

#[test]
fn figures_of_a_later_version_are_passed_over() {
    let mut values = vec![200, 1, 5, 7];
    put_value(&mut values, Metric::Errors, &Value::Rate { sum: 3, max_milli: 300 });
    let mut body = vec![1, values.len() as u8];
    body.extend(&values);
    let found = read(&body, &everything).unwrap();
    assert_eq!(found[0].1.0.len(), 1);
    assert!(found[0].1.0.contains_key(&Metric::Errors));
}

#[test]
fn what_is_kept_by_name_is_bounded() {
    let mut frame = Frame::default();
    for n in 0..100 {
        frame.follow(&Frame {
            at: 0,
            covered_ms: 10,
            objects: vec![
                (Object::Volume(format!("v{n:03}")), busy(n + 1)),
                (Object::Node, busy(n + 1)),
            ],
        });
        frame.keep(20);
    }
    let volumes = frame
        .objects
        .iter()
        .filter(|(object, _)| matches!(object, Object::Volume(_)));
    assert_eq!((volumes.count(), frame.covered_ms), (20, 1000));
    let sum = |wanted: &dyn Fn(&Object) -> bool| -> u64 {
        let of = frame.objects.iter().filter(|(object, _)| wanted(object));
        of.map(|(_, figures)| match figures.0[&Metric::Iops] {
            Value::Rate { sum, .. } => sum,
            _ => 0,
        })
        .sum()
    };
    assert_eq!(sum(&|object| *object != Object::Node), 5050);
    assert_eq!(sum(&|object| *object == Object::Node), 5050);
}
