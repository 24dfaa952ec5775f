use super::Graph;
use stateright::{Model, Property};

/// A walker on places 0 to 4: right from anywhere, left from 1 and 2; a fault takes it from 1 to 4, whence it does not return.
struct Walk;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Right,
    Left,
    Fault,
}

impl Model for Walk {
    type State = u8;
    type Action = Step;

    fn init_states(&self) -> Vec<u8> {
        vec![0]
    }

    fn actions(&self, _: &u8, actions: &mut Vec<Step>) {
        actions.extend([Step::Right, Step::Left, Step::Fault]);
    }

    fn next_state(&self, at: &u8, step: Step) -> Option<u8> {
        match (step, *at) {
            (Step::Right, 0..=2) => Some(at + 1),
            (Step::Left, 1 | 2) => Some(at - 1),
            (Step::Fault, 1) => Some(4),
            _ => None,
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("never at 3", |_, at: &u8| *at != 3),
            Property::sometimes("at 4", |_, at: &u8| *at == 4),
            Property::sometimes("at 9", |_, at: &u8| *at == 9),
        ]
    }
}

#[test]
fn ways_are_the_shortest() {
    let seen = Graph::of(Walk).seen();
    assert_eq!((seen.states, seen.steps, seen.depth), (5, 6, 4));
    assert_eq!(seen.broken, [("never at 3", vec!["Right".to_owned(); 3])]);
    assert_eq!(seen.happened, ["at 4"]);
}

#[test]
fn what_can_never_be_reached_again_is_found() {
    let graph = Graph::of(Walk);
    let system = |_: &u8, step: &Step| *step != Step::Fault;
    assert_eq!(
        graph.stuck(|at| *at == 3, system).expect("4 is a dead end"),
        ["Right", "Fault"]
    );
    assert_eq!(graph.stuck(|at| *at >= 3, system), None);
    // Only what the system does by itself counts: nobody need walk to the right.
    let stuck = graph.stuck(|at| *at >= 3, |_, step| *step == Step::Left);
    assert_eq!(stuck.expect("0 stays 0"), Vec::<String>::new());
}
