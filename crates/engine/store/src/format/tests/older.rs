//! Pages of states, and the item that names one.

use super::*;
use checkpoint::{Cleared, LeafPlace, OlderItem, StateItem};
use states::{Decoded, LINES_BYTES, StatesWriter, decode};

const STORE: StoreId = StoreId(2);
const SLOTS: u32 = 1000;

/// States that follow one another: (gap, length, version more, leaves, cleared, their slots).
fn list() -> impl Strategy<Value = Vec<(StateItem, Cleared)>> {
    let one = (0..3u32, 1..4u32, 0..1u64 << 34, any::<u8>(), any::<u8>(), 0..SLOTS);
    proptest::collection::vec(one, 1..400).prop_map(|steps| {
        let (mut to, mut version) = (0, 1);
        let mut list = Vec::new();
        for (gap, length, more, leaves, cleared, slot) in steps {
            let above = to + gap;
            to = above + length;
            version += more;
            let has = |mask: u8, part: &u8| mask >> part & 1 == 1;
            let place = |part: u8| match slot % 7 {
                0 => LeafPlace::Never,
                1 => LeafPlace::Lost,
                _ => LeafPlace::At(Slot((slot + u32::from(part)) % SLOTS), slot),
            };
            let parts = || 0..8u8;
            let item = StateItem {
                version: Version(version),
                above: SnapshotId(above),
                to: SnapshotId(to),
                open: false,
                leaves: parts()
                    .filter(|part| has(leaves, part))
                    .map(|part| (part, place(part)))
                    .collect(),
            };
            let cleared = parts().filter(|part| has(cleared & !leaves, part));
            list.push((item, cleared.map(|part| (part, Version(version - 1))).collect()));
        }
        list
    })
}

/// The pages that these states fill.
fn fill(list: &[(StateItem, Cleared)]) -> Vec<(Vec<u8>, u16, u32)> {
    let mut pages = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let mut page = vec![0x5a; PAGE_BYTES];
        let mut writer = StatesWriter::new(&mut page);
        let fit = rest
            .iter()
            .take_while(|(item, cleared)| writer.push(item, cleared))
            .count();
        let (used, sum) = writer.finish(STORE, chunk());
        rest = &rest[fit..];
        pages.push((page, used, sum));
    }
    pages
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_of_states_are_read_as_written(list in list()) {
        let mut read = Vec::new();
        for (page, used, sum) in fill(&list) {
            let decoded = decode(&page, STORE, chunk(), sum, SLOTS).expect("as it was written");
            prop_assert_eq!(decoded.used, used);
            read.extend(decoded.states);
            let other = ChunkId { index: ChunkIndex(4), ..chunk() };
            prop_assert!(decode(&page, STORE, other, sum, SLOTS).is_err());
            prop_assert!(decode(&page, StoreId(3), chunk(), sum, SLOTS).is_err());
            prop_assert!(decode(&page, STORE, chunk(), sum ^ 1, SLOTS).is_err());
        }
        prop_assert_eq!(read, list);
    }

    /// Bytes that say anything, with the right checksum: refused, or something that a chunk can have.
    #[test]
    fn no_states_make_the_reader_panic(
        list in list(),
        changes in proptest::collection::vec((0..400usize, any::<u8>()), 0..8),
        used in proptest::option::of(0..LINES_BYTES as u16 + 9),
        states in proptest::option::of(0..500u16),
    ) {
        let (mut page, ..) = fill(&list).remove(0);
        let mut header = states::Header::get(&page).expect("it was written");
        header.used = used.unwrap_or(header.used);
        header.states = states.unwrap_or(header.states);
        header.put(&mut page);
        for (at, byte) in changes {
            page[states::Header::BYTES + at] = byte;
        }
        let sum = seal(&mut page);
        if let Ok(Decoded { states, .. }) = decode(&page, STORE, chunk(), sum, SLOTS) {
            prop_assert!(states.iter().all(|(item, _)| item.above < item.to && !item.open));
            prop_assert!(states.windows(2).all(|pair| pair[0].0.to <= pair[1].0.above));
        }
    }
}

fn older_item() -> OlderItem {
    OlderItem {
        slot: Slot(77),
        sum: 0x1234_5678,
        above: SnapshotId(3),
        to: SnapshotId(300),
        states: 280,
        parts: 0b1000_0101,
    }
}

#[test]
fn a_page_is_named_among_the_states() {
    use checkpoint::Item;
    let mut pages = vec![0; PAGE_BYTES];
    let mut writer = checkpoint::PageWriter::new(&mut pages, STORE, 3, 0);
    let newer = StateItem {
        above: SnapshotId(300),
        to: SnapshotId(301),
        ..state_item()
    };
    let before = writer.space();
    writer.older(&older_item());
    assert_eq!(before - writer.space(), checkpoint::OLDER_BYTES);
    writer.state(&newer);
    writer.older(&older_item());
    writer.state(&newer);
    assert_eq!(writer.finish().pages, 1);
    let reader = checkpoint::PageReader::new(&pages, STORE, 3, 0).expect("as it was written");
    let items: Vec<Item<'_>> = reader.map(|item| item.expect("as it was written")).collect();
    let (older, state) = (Item::Older(older_item()), Item::State(newer));
    assert_eq!(items, [older.clone(), state.clone(), older, state]);
}

#[test]
fn a_page_that_cannot_be_is_not_named() {
    let impossible = [
        OlderItem {
            slot: Slot::NONE,
            ..older_item()
        },
        OlderItem {
            states: 0,
            ..older_item()
        },
        OlderItem {
            above: SnapshotId(300),
            ..older_item()
        },
    ];
    for item in impossible {
        let mut pages = vec![0; PAGE_BYTES];
        let mut writer = checkpoint::PageWriter::new(&mut pages, STORE, 3, 0);
        writer.older(&item);
        let _ = writer.finish();
        let mut reader = checkpoint::PageReader::new(&pages, STORE, 3, 0).expect("the page is whole");
        assert!(reader.next().is_some_and(|item| item.is_err()), "{item:?}");
    }
}

#[test]
fn the_bytes_of_pages_of_states_stay_where_they_are() {
    let state = |above: u32, to: u32, version: u64| StateItem {
        version: Version(version),
        above: SnapshotId(above),
        to: SnapshotId(to),
        ..state_item()
    };
    let list = [
        (state(1, 5, 8), Cleared::new()),
        (state(5, 6, 9), [(1, Version(4)), (6, Version(7))].into_iter().collect()),
        (state(9, 12, 1 << 40 | 3), [(2, Version(1 << 40))].into_iter().collect()),
    ];
    let (page, used, sum) = fill(&list).remove(0);
    let mut pages = vec![0; PAGE_BYTES];
    let mut writer = checkpoint::PageWriter::new(&mut pages, STORE, 3, 4);
    writer.older(&older_item());
    assert_eq!(writer.finish().pages, 1);
    let (page, named) = (&page[..PAGE_BODY_BYTES], &pages[..PAGE_BODY_BYTES]);
    assert_eq!(amita_types::crc32c(page), sum);
    assert_eq!(
        (used, sum, amita_types::crc32c(named)),
        (140, 3_683_450_375, 2_456_930_470)
    );
}
