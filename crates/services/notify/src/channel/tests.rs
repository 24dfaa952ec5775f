//! What a channel can be, and what nobody sees of it.

use super::*;

fn webhook(url: &str) -> (Channel, Secrets) {
    let (origin, path) = split_url(url).unwrap();
    let secrets = Secrets {
        path: Some(path),
        key: Some("hunter2-key".to_owned()),
    };
    (Channel::new("hook", Kind::Webhook { origin }, "eve", 1), secrets)
}

#[test]
fn secrets_are_sealed_for_their_channel_alone() {
    let seal = SealKey::generate();
    let (mut channel, secrets) = webhook("https://h.example.org/services/T0/hunter2-path?x=1");
    channel.seal(&secrets, Some(&seal)).unwrap();
    let record = serde_json::to_string(&channel).unwrap();
    let shown = format!("{record} {channel:?} {secrets:?} {}", channel.kind.target());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("https://h.example.org:443"));
    let opened = channel.open(Some(&seal)).unwrap();
    assert_eq!(
        (opened.path.as_deref(), opened.key.as_deref()),
        (Some("/services/T0/hunter2-path?x=1"), Some("hunter2-key"))
    );
    assert!(channel.open(None).is_err());
    assert!(channel.open(Some(&SealKey::generate())).is_err());
    let mut stolen = channel.clone();
    stolen.name = "other".to_owned();
    assert!(stolen.open(Some(&seal)).is_err(), "it does not open in another record");
}

#[test]
fn without_a_sealing_key_there_is_no_secret() {
    let (mut channel, secrets) = webhook("https://h/p");
    let why = channel.seal(&secrets, None).unwrap_err();
    assert!(why.contains("--seal-key") && !why.contains("hunter2"), "{why}");
    let only_path = Secrets {
        path: Some("/p".to_owned()),
        key: None,
    };
    channel.seal(&only_path, None).unwrap();
    assert!(channel.secret.is_none() && !channel.has_key);
    assert_eq!(channel.open(None).unwrap().path.as_deref(), Some("/p"));
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let kinds = [
        Kind::Webhook {
            origin: "https://h:1".to_owned(),
        },
        Kind::Mail {
            server: "m".to_owned(),
            port: 587,
            protection: Protection::Starttls,
            user: Some("u".to_owned()),
            from: "a@b.c".to_owned(),
            to: vec!["d@e.f".to_owned()],
        },
        Kind::Syslog {
            by: SyslogBy::Tls,
            server: "l:6514".to_owned(),
        },
    ];
    for kind in kinds {
        let channel = Channel::new("c", kind, "eve", 5);
        let text = serde_json::to_string(&channel).unwrap();
        assert_eq!(serde_json::from_str::<Channel>(&text).unwrap(), channel, "{text}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    for url in [
        "ftp://h/x",
        "https://",
        "https://u:p@h/x",
        "http//h",
        "https://h/x#y",
        "https://h h/",
    ] {
        let why = split_url(url).unwrap_err();
        assert!(why.contains("https://HOST"), "{url}: {why}");
        assert!(!why.contains("u:p"), "{why}");
    }
    let (plain, _) = split_url("http://127.0.0.1:8080/x")
        .map(|(origin, _)| webhook(&format!("{origin}/x")))
        .unwrap();
    assert!(plain.fault().unwrap().contains("loopback"));
    let allowed = Channel {
        allow_loopback: true,
        ..plain
    };
    assert_eq!(allowed.fault(), None);
    let mail = |to: &[&str], user: Option<&str>, protection| {
        let kind = Kind::Mail {
            server: "mail.example.org".to_owned(),
            port: 25,
            protection,
            user: user.map(str::to_owned),
            from: "amita@example.org".to_owned(),
            to: to.iter().map(|&to| to.to_owned()).collect(),
        };
        Channel::new("m", kind, "eve", 1)
    };
    assert_eq!(mail(&["a@b.c"], None, Protection::Starttls).fault(), None);
    assert!(mail(&[], None, Protection::Tls).fault().is_some());
    assert!(mail(&["a@b.c\r\nBcc: x@y.z"], None, Protection::Tls).fault().is_some());
    assert!(
        mail(&["a@b.c"], Some("u"), Protection::Tls).fault().is_some(),
        "a user without a password"
    );
    assert!(mail(&["a@b.c"], None, Protection::None).fault().is_some());
    let mut channel = allowed;
    channel.repeat_s = 1;
    assert!(channel.fault().is_some());
    (channel.repeat_s, channel.authority) = (3600, Some("no certificate".to_owned()));
    assert!(channel.fault().unwrap().contains("certificate"));
}

#[test]
fn a_channel_that_fails_is_told_by_the_others() {
    let fails = Condition {
        code: "channel-fails".to_owned(),
        severity: Severity::Warning,
        object: "hook".to_owned(),
        labels: std::collections::BTreeMap::from([("channel".to_owned(), "hook".to_owned())]),
        what: "Channel hook is not told of alerts.".to_owned(),
        advice: String::new(),
        at_once: false,
    };
    let (hook, _) = webhook("https://h/p");
    let mut other = hook.clone();
    other.name = "mail".to_owned();
    assert!(!hook.wants(&fails) && other.wants(&fails));
    let of_another = Condition {
        code: "node-down".to_owned(),
        ..fails
    };
    assert!(hook.wants(&of_another), "a node of the channel's name");
}

#[test]
fn places_are_hosts_with_ports() {
    assert_eq!(place("h:1"), Some(("h".to_owned(), 1)));
    assert_eq!(place("[::1]:25"), Some(("::1".to_owned(), 25)));
    for bad in ["h", "h:0", "h:70000", ":1", "::1:25", "[x]:1", "a b:1", "a/b:1"] {
        assert_eq!(place(bad), None, "{bad}");
    }
}

#[test]
fn channels_reach_receivers_and_nothing_else() {
    let may = |text: &str, loopback| may_reach(text.parse().unwrap(), loopback).is_ok();
    for good in ["10.0.0.5", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd00::1"] {
        assert!(may(good, false), "{good}");
    }
    for bad in [
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "fe80::1",
        "ff02::1",
        "::",
        "::ffff:169.254.169.254",
    ] {
        assert!(!may(bad, true), "{bad}");
    }
    for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert!(!may(here, false) && may(here, true), "{here}");
    }
}
