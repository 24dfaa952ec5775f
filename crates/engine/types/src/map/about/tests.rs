use super::*;
use crate::map::{MAX_LABELS, Volume};

#[test]
fn what_is_not_known_is_not_written() {
    let nothing = About::of(VolumeId(7));
    let json = r#"{"volume":7}"#;
    assert_eq!(serde_json::to_string(&nothing).expect("plain"), json);
    assert_eq!(serde_json::from_str::<About>(json).expect("what was written"), nothing);
}

#[test]
fn labels_have_bounds() {
    let labels = |count: usize| (0..count).map(|index| (format!("k{index}"), String::new())).collect();
    let about = |count| About {
        labels: labels(count),
        ..About::of(VolumeId(7))
    };
    assert_eq!(about(MAX_LABELS).check(), Ok(()));
    assert!(about(MAX_LABELS + 1).check().is_err());
}

/// Why labels have a record of their own: a program reads a volume's record with fields that it does not know, and drops them when it
/// writes the record.
#[test]
fn a_field_that_is_not_known_does_not_outlive_a_write() {
    let json = r#"{"id":7,"name":"db","pool":"fast","size_bytes":4096,"generation":3,"labels":{"a":"b"}}"#;
    let volume: Volume = serde_json::from_str(json).expect("fields that are not known are no fault");
    assert!(!serde_json::to_string(&volume).expect("plain").contains("labels"));
}

#[test]
fn only_a_file_that_was_changed_at_the_same_moment_is_the_same_image() {
    let of = |modified_ns| Import {
        format: "raw".to_owned(),
        image_bytes: 4096,
        modified_ns,
        done_bytes: 0,
        ails: None,
        attempt: None,
    };
    assert!(of(7).is_of(&of(7)));
    assert!(!of(7).is_of(&of(8)));
    // Two images that came by pipes or by the API, or files of reproducible builds.
    assert!(!of(0).is_of(&of(0)));
    assert!(!of(0).is_of(&of(7)) && !of(7).is_of(&of(0)));
}

#[test]
fn a_program_that_knows_of_no_attempts_reads_an_import_and_is_read() {
    let json = r#"{"format":"raw","image_bytes":4096,"modified_ns":7,"done_bytes":1}"#;
    let before: Import = serde_json::from_str(json).expect("as it was written before");
    assert_eq!(
        (before.attempt, serde_json::to_string(&before).expect("plain").as_str()),
        (None, json)
    );
    let now = Import {
        attempt: Some(Attempt::from_u128(7)),
        ..before.clone()
    };
    let read: Import = serde_json::from_str(&serde_json::to_string(&now).expect("plain")).expect("what was written");
    assert_eq!(read, now);
    assert!(now.is_of(&before) && !now.is_as(&before) && now.is_as(&now));
}
