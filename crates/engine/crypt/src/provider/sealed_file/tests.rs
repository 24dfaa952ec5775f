use super::*;
use amita_keys::SealKey;
use amita_testkit::Random as Numbers;
use amita_types::VolumeId;
use amita_types::map::{KeyName, KeyNumber};

fn random(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut numbers = Numbers::new(seed);
    move |bytes: &mut [u8]| bytes.fill_with(|| numbers.bits() as u8)
}

fn binding() -> Binding {
    Binding {
        tenant: None,
        key: KeyName {
            volume: VolumeId(1),
            image: VolumeId(1),
            number: KeyNumber(1),
        },
    }
}

fn of(file: &SealKey) -> SealedFile {
    SealedFile::new(file.derive(PURPOSE)).expect("a file is never empty")
}

/// As an operator does it: a new line in front of the file, every data key wrapped again, then the old line goes.
#[test]
fn a_sealing_key_is_changed_by_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["old", "new", "both"].map(|name| folder.path().join(name));
    let (old, new) = (SealKey::generate(), SealKey::generate());
    old.save(&paths[0]).unwrap();
    new.save(&paths[1]).unwrap();
    let lines = [&paths[1], &paths[0]].map(|path| std::fs::read_to_string(path).unwrap());
    old.save(&paths[2]).unwrap();
    std::fs::write(&paths[2], lines.concat()).unwrap();
    let both = SealKey::load(&paths[2]).unwrap();

    let key = DataKey::generate(&mut random(1));
    let wrapped = of(&old).wrap(&binding(), &key, &mut random(2)).unwrap().done().unwrap();
    assert!(of(&old).is_newest(&wrapped) && !of(&both).is_newest(&wrapped));
    let unwrapped = of(&both).unwrap(&binding(), &wrapped).unwrap().done().unwrap();
    let again = of(&both)
        .wrap(&binding(), &unwrapped, &mut random(3))
        .unwrap()
        .done()
        .unwrap();
    assert!(of(&both).is_newest(&again));
    assert_eq!(again.check_value(), wrapped.check_value(), "the data key stays");
    let left = of(&new).unwrap(&binding(), &again).unwrap().done().unwrap();
    assert_eq!(left.expose(), key.expose());
    let refused = of(&new).unwrap(&binding(), &wrapped).unwrap_err();
    assert!(matches!(refused, KeyError::OtherKek { .. }), "{refused}");
}

/// Keys of hosts are sealed with the file's keys themselves, and tokens of copies with others: none of them wraps a data key.
#[test]
fn the_file_has_other_keys_for_other_purposes() {
    let file = SealKey::generate();
    let key = DataKey::generate(&mut random(1));
    let wrapped = of(&file)
        .wrap(&binding(), &key, &mut random(2))
        .unwrap()
        .done()
        .unwrap();
    let mut others = SealedFile::new(file.derive("another purpose")).unwrap();
    let refused = others.unwrap(&binding(), &wrapped).unwrap_err();
    assert!(matches!(refused, KeyError::OtherKek { .. }), "{refused}");
}

#[test]
fn no_two_wraps_are_the_same() {
    let file = SealKey::generate();
    let key = DataKey::generate(&mut random(1));
    let mut numbers = random(2);
    let mut wrap = || of(&file).wrap(&binding(), &key, &mut numbers).unwrap().done().unwrap();
    assert_ne!(wrap().to_text(), wrap().to_text());
}

#[test]
fn what_others_have_wrapped_is_said_to_be_theirs() {
    let text = concat!(
        r#"{"version":1,"algorithm":"aes-256-xts","volume":1,"image":1,"number":1,"check":"00112233445566778899aabbccddeeff","#,
        r#""by":{"transit":{"mount":"transit","key":"amita","wrapped":"vault:v1:AAAA"}}}"#
    );
    let wrapped = WrappedKey::parse(text).unwrap();
    let refused = of(&SealKey::generate()).unwrap(&binding(), &wrapped).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "data key 1 of volume 1 (image 1) is wrapped by Vault's transit engine, and this node was given a sealed file to open it: give \
         it Vault's transit engine"
    );
}

#[test]
fn without_a_key_there_is_no_provider() {
    assert!(SealedFile::new(Vec::new()).is_none());
}
