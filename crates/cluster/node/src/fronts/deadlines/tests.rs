use super::*;

#[test]
fn each_is_told_once_and_at_the_earliest_time_that_it_wants() {
    let mut deadlines = Deadlines::default();
    let mut due = [None; 3];
    for (id, at) in [(0, 30), (1, 10), (2, 20), (0, 5), (1, 15), (2, 20)] {
        deadlines.want(&mut due[id], id as u64, Time(at));
    }
    assert_eq!(due, [Some(Time(5)), Some(Time(10)), Some(Time(20))]);
    assert_eq!(deadlines.next(), Some(Time(5)));
    assert_eq!(deadlines.first(Time(4)), None);
    let mut told = Vec::new();
    while let Some(id) = deadlines.first(Time(15)) {
        deadlines.forget(&mut due[id as usize], id);
        told.push(id);
    }
    assert_eq!(told, [0, 1], "and not again at the later times");
    deadlines.want(&mut due[0], 0, Time(40));
    deadlines.forget(&mut due[2], 2);
    assert_eq!(deadlines.next(), Some(Time(40)), "who is gone is not told");
    deadlines.forget(&mut due[2], 2);
}
