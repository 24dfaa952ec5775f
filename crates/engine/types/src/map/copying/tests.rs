use super::*;

#[test]
fn what_others_may_have_written_is_written_anew() {
    let ours = CopyPlace {
        pass: SnapshotId(1),
        pass_bytes: 1 << 20,
        generation: Generation(3),
        ..CopyPlace::default()
    };
    // Nobody has had it since.
    let mut place = ours;
    place.found(Generation(3));
    assert_eq!(place, ours);
    // An opening that came to nothing, or whose runner died, has noted nothing: whose the next generation is cannot be told.
    place.found(Generation(4));
    assert!(place.mixed);
    assert_eq!((place.pass_bytes, place.generation), (0, Generation(3)));
    // It was never opened.
    let mut place = CopyPlace::default();
    place.found(Generation(0));
    assert_eq!(place, CopyPlace::default());
}
