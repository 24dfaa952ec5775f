use super::*;

fn session(core: u64, number: u64) -> IscsiSession {
    IscsiSession {
        node: String::new(),
        core,
        number,
        initiator: "iqn.2001-04.com.example:host".to_owned(),
        proven: false,
        peer: None,
        target: None,
        iqn: None,
        isid: "00023d000001".to_owned(),
        tsih: 1,
        tag: 1,
        portal: None,
        since: 7,
        silent_seconds: 0,
        header_digest: false,
        data_digest: false,
        immediate_data: true,
        initial_r2t: true,
        max_receive_bytes: 262_144,
        max_send_bytes: 8192,
        max_burst_bytes: 262_144,
        first_burst_bytes: 65_536,
        max_outstanding_r2t: 1,
        commands: 128,
        under_way: 0,
    }
}

fn told(node: &str, sessions: &[(u64, u64)], is_cut: bool) -> SessionsPart {
    SessionsPart {
        node: node.to_owned(),
        cluster: "c".to_owned(),
        tells: true,
        sessions: sessions.iter().map(|(core, number)| session(*core, *number)).collect(),
        is_cut,
        silent_cores: 0,
    }
}

fn places(piece: &Piece) -> Vec<(&str, u64, u64)> {
    let items = piece.items.iter();
    items.map(|item| (item.node.as_str(), item.core, item.number)).collect()
}

#[test]
fn a_place_is_read_as_it_was_told() {
    for place in [("n1", None), ("n-1.b", Some((0, 17))), ("n1", Some((127, u64::MAX)))] {
        let place = Place {
            node: place.0.to_owned(),
            session: place.1,
        };
        assert_eq!(Place::parse(&place.text()).unwrap(), place);
    }
    for bad in ["", "/", "/1/2", "n1/1", "n1/1/2/3", "n1/x/2", "n1/1/-2", "n1//"] {
        let refused = Place::parse(bad).unwrap_err();
        assert_eq!(refused.code, "bad-request", "{bad}");
        assert!(refused.detail.contains("`next`"), "{bad}: {}", refused.detail);
    }
    let behind = |text: &str, node: &str| Place::parse(text).unwrap().is_before(node);
    assert!(behind("n2/0/1", "n2") && behind("n2/0/1", "n3") && !behind("n2/0/1", "n1"));
    assert!(!behind("n2", "n2") && behind("n2", "n3"));
}

#[test]
fn a_piece_is_full_where_there_is_no_room_and_the_next_one_begins_there() {
    let nodes = ["n1", "n2", "n3", "n4"].map(Peer::alone);
    let away = MissingNode {
        node: "n2".to_owned(),
        why: "it is not alive".to_owned(),
    };
    let mut piece = Piece::default();
    let answers = vec![
        told("n4", &[(0, 9)], false),
        told("n3", &[(0, 1), (1, 1)], false),
        told("n1", &[(0, 5)], false),
    ];
    piece.take(&nodes, answers, vec![away.clone()], 2);
    assert_eq!(places(&piece), [("n1", 0, 5), ("n3", 0, 1)]);
    assert_eq!((&piece.missing, piece.is_full), (&vec![away], true));
    assert_eq!(piece.end.unwrap().text(), "n3/0/1");
    // It is just filled, and nobody has said whether there are more.
    let mut piece = Piece::default();
    piece.take(&nodes[..1], vec![told("n1", &[(0, 5), (0, 6)], false)], Vec::new(), 2);
    assert!(!piece.is_full);
    assert_eq!(piece.end.as_ref().unwrap().text(), "n1");
    piece.take(
        &nodes[1..],
        vec![told("n2", &[], false), told("n3", &[(4, 4)], true)],
        Vec::new(),
        2,
    );
    assert_eq!((piece.is_full, piece.end.unwrap().text()), (true, "n1/0/6".to_owned()));
}

#[test]
fn who_tells_nothing_or_not_all_is_named() {
    let nodes = ["n1", "n2", "n3"].map(Peer::alone);
    let silent = SessionsPart {
        silent_cores: 2,
        ..told("n1", &[(1, 1)], false)
    };
    let mute = SessionsPart {
        tells: false,
        ..told("n2", &[], false)
    };
    let mut piece = Piece::default();
    piece.take(&nodes, vec![silent, mute, told("n3", &[(0, 2)], false)], Vec::new(), 10);
    assert_eq!(places(&piece), [("n1", 1, 1), ("n3", 0, 2)]);
    let named: Vec<&str> = piece.missing.iter().map(|found| found.node.as_str()).collect();
    assert_eq!(named, ["n1", "n2"]);
    assert!(piece.missing[0].why.contains("2 of its cores"), "{:?}", piece.missing);
    assert_eq!((piece.is_full, piece.end.unwrap().text()), (false, "n3".to_owned()));
}

#[test]
fn another_node_is_asked_for_what_is_wanted() {
    assert_eq!(path(7, None, None, None), "/api/v1/iscsi/sessions/part?limit=7");
    assert_eq!(
        path(7, Some((3, 9)), Some("iqn.a:b&c"), Some("eui.0123456789abcdef")),
        "/api/v1/iscsi/sessions/part?limit=7&core=3&number=9&initiator=iqn.a%3Ab%26c&iqn=eui.0123456789abcdef"
    );
}
