//! What is told of a volume that is written anew.

use super::*;
use amita_types::map::{KeyName, KeyNumber, KeyRing};
use amita_types::{Generation, VolumeId};

fn volume(is_encrypted: bool) -> Volume {
    let key = KeyName {
        volume: VolumeId(1),
        image: VolumeId(1),
        number: KeyNumber(1),
    };
    Volume {
        generation: Generation(1),
        keys: is_encrypted.then(|| KeyRing::new(key)),
        ..Volume::new(VolumeId(1), "db", "main", 1 << 30)
    }
}

fn shown(encrypted: bool, others: &[&str]) -> Shown<'static> {
    Shown {
        volume: "db",
        encrypted,
        job: Some("rekey-2".to_owned()),
        rekeyed: true,
        need: Need {
            needed_bytes: Some(3 << 20),
            room_bytes: Some(2 << 20),
            unknown: None,
        },
        former_keys_read_by: others.iter().map(ToString::to_string).collect(),
        former_data_read_by: Vec::new(),
    }
}

#[test]
fn it_is_said_what_becomes_of_the_key_of_before() {
    let said = text(&shown(true, &[]), &volume(true));
    assert!(
        said.contains("by a new data key") && said.contains("is erased"),
        "{said}"
    );
    let said = text(&shown(true, &["test", "dev (deleted)"]), &volume(true));
    assert!(
        said.contains("stays") && said.contains("flattening") && said.contains("test, dev (deleted)."),
        "{said}"
    );
    let said = text(&shown(true, &[]), &volume(false));
    assert!(
        said.contains("may lie on disks") && said.contains("secret links"),
        "{said}"
    );
    let with_clones = Shown {
        former_data_read_by: vec!["test".to_owned()],
        ..shown(true, &[])
    };
    let said = text(&with_clones, &volume(false));
    assert!(
        said.contains("STAYS IN THE CLEAR") && said.contains(": test."),
        "{said}"
    );
    let said = text(&shown(false, &[]), &volume(true));
    assert!(said.contains("in the clear") && !said.contains("links"), "{said}");
}

#[test]
fn what_is_not_known_is_not_taken_for_too_much() {
    let mut need = shown(true, &[]).need;
    assert!(!need.fits() && need.text().contains("3 MiB"), "{}", need.text());
    need.room_bytes = None;
    assert!(need.fits() && need.text().contains("how full"), "{}", need.text());
    need.room_bytes = Some(2 << 20);
    (need.needed_bytes, need.unknown) = (None, Some("a store does not answer".to_owned()));
    assert!(
        need.fits() && need.text().contains("not known (a store"),
        "{}",
        need.text()
    );
    let said = text(
        &Shown {
            job: None,
            rekeyed: false,
            ..shown(true, &[])
        },
        &volume(true),
    );
    assert!(said.contains("would be written anew"), "{said}");
}
