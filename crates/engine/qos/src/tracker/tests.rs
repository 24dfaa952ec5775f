use super::{Elsewhere, Tracker};

#[test]
fn each_server_hears_of_the_others_once() {
    let mut tracker = Tracker::default();
    assert_eq!(tracker.ask(0), Elsewhere::default());
    assert_eq!(tracker.ask(1), Elsewhere::default());
    tracker.answered(0, 10, true);
    tracker.answered(1, 5, false);
    tracker.answered(1, 7, true);
    assert_eq!(
        tracker.ask(0),
        Elsewhere {
            served: 12,
            reserved: 7
        }
    );
    assert_eq!(tracker.ask(0), Elsewhere::default());
    assert_eq!(
        tracker.ask(1),
        Elsewhere {
            served: 10,
            reserved: 10
        }
    );
    // One that was never asked has missed all of it.
    assert_eq!(
        tracker.ask(2),
        Elsewhere {
            served: 22,
            reserved: 17
        }
    );
}
