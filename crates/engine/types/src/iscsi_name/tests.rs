use super::*;

/// Names as initiators have them out of the box, and the examples of RFC 7143 (4.2.7.4 to 4.2.7.6).
const GOOD: &[&str] = &[
    "iqn.2001-04.com.example:storage:diskarrays-sn-a8675309",
    "iqn.2001-04.com.example",
    "iqn.2001-04.com.example:storage.tape1.sys1.xyz",
    "eui.02004567a425678d",
    "naa.52004567ba64678d",
    "naa.62004567ba64678d0123456789abcdef",
    "iqn.1993-08.org.debian:01:9c11913aa8b",
    "iqn.1991-05.com.microsoft:host.example.org",
    "iqn.1998-01.com.vmware:esx-1:1234567890:64",
    "iqn.2008-11.org.linux-kvm",
    "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test",
];

#[test]
fn names_of_known_initiators_are_names() {
    for name in GOOD {
        assert_eq!(canonical(name).as_deref(), Ok(*name));
    }
}

/// RFC 3722, 4: capitals are mapped to small letters before names are compared.
#[test]
fn capitals_stand_for_small_letters() {
    for name in GOOD {
        assert_eq!(canonical(&name.to_ascii_uppercase()).as_deref(), Ok(*name));
    }
    assert_eq!(canonical("EUI.02004567A425678D").as_deref(), Ok("eui.02004567a425678d"));
}

#[test]
fn what_is_no_name_says_why() {
    for (bad, why) in [
        ("", "does not begin"),
        ("iqn", "does not begin"),
        ("nqn.2014-08.org.example:x", "does not begin"),
        ("iqn.2001-04", "the form is"),
        ("iqn.2001-13.com.example:x", "no year and month"),
        ("iqn.2001-00.com.example:x", "no year and month"),
        ("iqn.01-04.com.example:x", "no year and month"),
        ("iqn.2001-4.com.example:x", "no year and month"),
        ("iqn.2001-04.", "no domain name"),
        ("iqn.2001-04.com..example:x", "no domain name"),
        ("iqn.2001-04.-com.example:x", "no domain name"),
        ("iqn.2001-04.com-.example:x", "no domain name"),
        ("iqn.2001-04.com.example:", "nothing follows"),
        ("iqn.2001-04.com.example:my_host", "contains '_'"),
        ("iqn.2001-04.com.example:a b", "contains ' '"),
        ("iqn.2001-04.com.example:a\n", "contains '\\n'"),
        ("iqn.2001-04.com.example:a\0", "contains '\\0'"),
        ("iqn.2001-04.com.example:\u{e4}", "not ASCII"),
        // A full-width letter, which RFC 3722 would make a small one.
        ("iqn.2001-04.com.example:\u{ff21}", "not ASCII"),
        ("eui.02004567a425678", "not 16 hexadecimal"),
        ("eui.02004567a425678g", "not 16 hexadecimal"),
        ("naa.52004567ba64678", "not 16 or 32 hexadecimal"),
        ("naa.52004567ba64678d01", "not 16 or 32 hexadecimal"),
    ] {
        let said = canonical(bad).unwrap_err();
        assert!(said.contains(why), "{bad:?}: {said}");
    }
    let long = format!("iqn.2001-04.com.example:{}", "x".repeat(MAX_ISCSI_NAME_BYTES - 24));
    assert_eq!(long.len(), MAX_ISCSI_NAME_BYTES);
    assert!(canonical(&long).is_ok());
    assert!(canonical(&format!("{long}x")).unwrap_err().contains("at most 223"));
}

/// Whatever is given: no panic, and what is a name stays the one that it is, of characters that every log and shell takes.
#[test]
fn a_name_is_its_own_canonical_form() {
    const PARTS: &[&str] = &[
        "iqn.",
        "IQN.",
        "eui.",
        "naa.",
        "2001-04.",
        "com",
        "Example",
        ".",
        ":",
        "-",
        "_",
        " ",
        "\u{e4}",
        "0123456789abcdef",
        "x",
        "Z",
        "0",
    ];
    let (mut state, mut names) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).expect("below a usize")
    };
    for _ in 0..100_000 {
        let text: String = (0..next(7)).map(|_| PARTS[next(PARTS.len())]).collect();
        let Ok(name) = canonical(&text) else { continue };
        names += 1;
        assert_eq!(canonical(&name).as_ref(), Ok(&name));
        assert_eq!(name, text.to_ascii_lowercase());
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.:".contains(&b);
        assert!(name.bytes().all(is_plain), "{name}");
    }
    assert!(names > 30, "only {names} were names");
}
