use super::*;
use amita_types::VolumeId;
use amita_types::map::{KeyName, KeyNumber};

fn counting(bytes: &mut [u8]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = at as u8;
    }
}

#[test]
fn the_check_value_is_half_an_hmac() {
    let key = DataKey::generate(&mut counting);
    // python3: hmac.new(bytes(range(64)), b"amita-crypt 1 key check value", "sha256").hexdigest()[:32]
    assert_eq!(key.check_value().to_string(), "e941bbba3dc505392e683340c310ff94");
    let json = serde_json::to_string(&key.check_value()).unwrap();
    assert_eq!(serde_json::from_str::<CheckValue>(&json).unwrap(), key.check_value());
    for wrong in ["\"\"", "\"0\"", "7", &json.to_uppercase(), &json.replace("\"", "")] {
        assert!(serde_json::from_str::<CheckValue>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn keys_are_told_apart() {
    let mut bytes: Vec<u8> = (0..64).collect();
    let one = DataKey::from_bytes(&bytes).unwrap();
    for at in 0..64 {
        bytes[at] ^= 0x10;
        let other = DataKey::from_bytes(&bytes).unwrap();
        assert_ne!(one.check_value(), other.check_value(), "byte {at}");
        bytes[at] ^= 0x10;
    }
}

#[test]
fn what_is_no_key_is_refused() {
    for given in [0, 32, 63, 65] {
        assert_eq!(
            DataKey::from_bytes(&vec![1; given]).unwrap_err(),
            BadKey::Length { given }
        );
    }
    assert_eq!(DataKey::from_bytes(&[7; 64]).unwrap_err(), BadKey::Halves);
}

#[test]
#[should_panic(expected = "random numbers repeat")]
fn no_key_is_made_of_what_is_not_random() {
    let _ = DataKey::generate(&mut |bytes: &mut [u8]| bytes.fill(9));
}

#[test]
fn names_are_said_with_their_volume() {
    let key = KeyName {
        volume: VolumeId(3),
        image: VolumeId(7),
        number: KeyNumber(2),
    };
    assert_eq!(key.to_string(), "2 of volume 3 (image 7)");
}
