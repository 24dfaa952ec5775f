use super::{Point, marks, svg, us};

fn point(iops: f64, p50_us: f64) -> Point {
    Point {
        iops,
        p50_us,
        p99_us: p50_us * 3.0,
        p999_us: p50_us * 20.0,
    }
}

#[test]
fn all_points_lie_in_the_picture_and_higher_is_slower() {
    let text = svg(
        "writes & reads",
        &[point(90_000.0, 60.0), point(10_000.0, 31.0), point(50_000.0, 35.0)],
    );
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    assert!(text.contains("writes &amp; reads"));
    assert_eq!(text.matches("<circle").count(), 9);
    assert_eq!(text.matches("<polyline").count(), 3);
    let line = text.lines().find(|line| line.starts_with("<polyline")).expect("a line");
    let path = line.split('"').nth(1).expect("its points");
    let places: Vec<(f64, f64)> = path
        .split(' ')
        .map(|pair| pair.split_once(',').expect("a pair"))
        .map(|(x, y)| (x.parse().expect("x"), y.parse().expect("y")))
        .collect();
    assert!(
        places.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "from left to right: {places:?}"
    );
    assert!(
        places.windows(2).all(|pair| pair[0].1 > pair[1].1),
        "slower is higher: {places:?}"
    );
    assert!(
        places
            .iter()
            .all(|&(x, y)| (70.0..=630.0).contains(&x) && (50.0..=370.0).contains(&y)),
        "{places:?}"
    );
}

#[test]
fn a_picture_of_nothing_is_one() {
    let text = svg("nothing", &[]);
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert!(!svg("zero", &[point(0.0, 0.0)]).contains("NaN"));
}

#[test]
fn marks_are_round_and_not_many() {
    for most in [900.0, 1_000.0, 47_000.0, 99_999.0, 231_000.0, 1_200_000.0] {
        let marks = marks(most);
        assert!((4..=11).contains(&marks.len()), "{most}: {marks:?}");
    }
    assert_eq!([us(1), us(3), us(7)], ["10 us", "1 ms", "10 s"]);
}
