//! The parsers of pages. An input is a byte of flags and what the page holds; most inputs get a right checksum, so that
//! what lies behind it is reached. What a parser accepts must be what a writer writes: it is written again and must be
//! read as the same.

use crate::common::{BLOCK, STORE};
use amita_store::format::checkpoint::{self, Item, PageReader, PageWriter};
use amita_store::format::page::{LogPage, RECORDS_BYTES};
use amita_store::format::record::{self, Change, Record, RecordReader, RecordWriter};
use amita_store::format::superblock::Superblock;
use amita_store::format::{PAGE_BYTES, Slot, leaf, seal};
use amita_types::{ChunkId, ChunkIndex, VolumeId};

/// The page is not sealed: its checksum is what the input says.
pub const UNSEALED: u8 = 1;

/// The page of an input; what the input does not say is zero.
pub fn page(input: &[u8]) -> Option<[u8; PAGE_BYTES]> {
    let (flags, bytes) = input.split_first()?;
    let mut page = [0; PAGE_BYTES];
    let count = bytes.len().min(PAGE_BYTES);
    page[..count].copy_from_slice(&bytes[..count]);
    if flags & UNSEALED == 0 {
        seal(&mut page);
    }
    Some(page)
}

/// The input of a page, with its checksum or without.
pub fn input(flags: u8, page: &[u8]) -> Vec<u8> {
    std::iter::once(flags).chain(page.iter().copied()).collect()
}

/// A superblock. What is accepted names places that lie in its file.
pub fn superblock(input: &[u8]) {
    let _ = Superblock::decode(input);
    let Some(page) = page(input) else { return };
    for cut in [0, 7, 8, 175, PAGE_BYTES - 1] {
        assert!(
            Superblock::decode(&page[..cut]).is_err(),
            "{cut} bytes are no superblock"
        );
    }
    let Ok(found) = Superblock::decode(&page) else { return };
    assert_eq!(Superblock::decode(&found.encode()), Ok(found));
    let geometry = found.geometry;
    let end = geometry.size_bytes - BLOCK as u64;
    assert!(geometry.slot_offset(Slot(geometry.slots - 1)) <= end);
    let checkpoint = found.checkpoint;
    for sequence in [0, checkpoint.tail, found.mount_start, u64::MAX] {
        assert!(geometry.log_page_offset(sequence) <= end);
    }
    let start = geometry.checkpoint_offsets[checkpoint.area as usize];
    assert!(start + checkpoint.pages * BLOCK as u64 <= geometry.size_bytes);
}

/// A page of the log, and its records.
pub fn log(input: &[u8]) {
    let _ = LogPage::decode(input, STORE);
    records(input);
    let Some(page) = page(input) else { return };
    assert!(LogPage::decode(&page[..PAGE_BYTES - 1], STORE).is_none());
    if let Some(found) = LogPage::decode(&page, STORE) {
        assert!(found.records.len() <= RECORDS_BYTES);
        records(found.records);
    }
    // A page of another store is none.
    let mut other = STORE;
    other.0 ^= 1;
    assert!(LogPage::decode(&page, STORE).is_none() || LogPage::decode(&page, other).is_none());
}

fn records(bytes: &[u8]) {
    // A record has at least its head of four bytes.
    let most = bytes.len() / 4 + 1;
    let mut number = 0;
    for record in RecordReader::new(bytes) {
        number += 1;
        assert!(number <= most, "the reader gets on");
        let Ok(record) = record else { return };
        let mut out = vec![0; RECORDS_BYTES];
        if !fits(&record) {
            continue;
        }
        let mut writer = RecordWriter::resume(&mut out, 0, 0);
        write(&mut writer, &record);
        let (used, written) = writer.used();
        assert_eq!(written, 1);
        let again = RecordReader::new(&out[..used]).next();
        assert_eq!(again, Some(Ok(record)));
    }
}

/// Raw bytes may be longer than a page.
fn fits(found: &Record) -> bool {
    match found {
        Record::Roll { entries, .. } => record::roll_bytes(entries.len()) <= RECORDS_BYTES,
        Record::Clone { entries, .. } => record::clone_bytes(entries.len()) <= RECORDS_BYTES,
        Record::Mend { entries, .. } => record::mend_bytes(entries.len()) <= RECORDS_BYTES,
        Record::Put { entries, .. } => record::put_bytes(entries.len()) <= RECORDS_BYTES,
        _ => true,
    }
}

fn write(writer: &mut RecordWriter<'_>, record: &Record) {
    let change = |chunk, version, previous, snapshot| Change {
        chunk,
        version,
        previous,
        snapshot,
    };
    match record {
        Record::Write {
            chunk,
            version,
            previous,
            snapshot,
            range,
            runs,
            sums,
        } => writer.write(&change(*chunk, *version, *previous, *snapshot), *range, runs, sums),
        Record::Clear {
            chunk,
            version,
            previous,
            snapshot,
            range,
        } => writer.clear(&change(*chunk, *version, *previous, *snapshot), *range),
        Record::Roll {
            chunk,
            version,
            previous,
            snapshot,
            entries,
            last,
        } => writer.roll(&change(*chunk, *version, *previous, *snapshot), entries, *last),
        Record::Fence(fence) => writer.fence(fence),
        Record::Clone {
            chunk,
            origin,
            version,
            entries,
            last,
        } => writer.clone(*chunk, *origin, *version, entries, *last),
        Record::Drop {
            chunk,
            snapshot,
            kept_for,
        } => writer.drop(*chunk, *snapshot, *kept_for),
        Record::Join {
            chunk,
            version,
            previous,
            base,
            snapshot,
        } => writer.join(&change(*chunk, *version, *previous, *snapshot), *base),
        Record::Mend {
            chunk,
            version,
            entries,
        } => writer.mend(*chunk, *version, entries),
        Record::Whole {
            chunk,
            version,
            born: None,
        } => writer.whole(*chunk, *version),
        Record::Whole {
            chunk,
            version,
            born: Some(born),
        } => writer.whole_born(*chunk, *version, *born),
        Record::Frame {
            chunk,
            version,
            above,
            to,
            state,
        } => writer.frame(*chunk, *version, (*above, *to), *state),
        Record::Put {
            chunk,
            version,
            to,
            entries,
            own,
        } => writer.put(*chunk, *version, *to, entries, own),
        Record::Close { chunk, version, to } => writer.close(*chunk, *version, *to),
        Record::Mark { chunk, mark } => writer.mark(*chunk, mark),
    }
}

/// A page of a checkpoint, and its items. The page is read as the one that it says it is.
pub fn checkpoint(input: &[u8]) {
    let _ = PageReader::new(input, STORE, 0, 0);
    let Some(page) = page(input) else { return };
    let Some(header) = checkpoint::Header::get(&page) else {
        return;
    };
    let (id, index) = (header.checkpoint, header.index);
    assert!(PageReader::new(&page, STORE, id ^ 1, index).is_err());
    assert!(PageReader::new(&page, STORE, id, index ^ 1).is_err());
    let Ok(reader) = PageReader::new(&page, STORE, id, index) else {
        return;
    };
    let mut items = Vec::new();
    for item in reader {
        assert!(items.len() < PAGE_BYTES / 4, "the reader gets on");
        let Ok(item) = item else { break };
        items.push(item);
    }
    // A page of short items takes several where long ones leave a rest.
    let mut out = vec![0; 8 * PAGE_BYTES];
    let mut writer = PageWriter::new(&mut out, STORE, id, 0);
    items.retain(is_written);
    for item in &items {
        put(&mut writer, item);
    }
    let filled = writer.finish();
    let mut again = Vec::new();
    for (index, page) in out.chunks(PAGE_BYTES).take(filled.pages).enumerate() {
        let reader = PageReader::new(page, STORE, id, index as u64).expect("it was just written");
        assert!(index + 1 < filled.pages || reader.sum == filled.last_sum);
        again.extend(reader.map(|item| item.expect("it was just written")));
    }
    assert_eq!(said(&items), said(&again));
}

/// Does this version write such an item?
fn is_written(item: &Item<'_>) -> bool {
    match item {
        Item::Shared(counts) => counts.iter().count() > 0,
        _ => true,
    }
}

fn put(writer: &mut PageWriter<'_>, item: &Item<'_>) {
    match item {
        Item::Group(fence) => writer.group(fence),
        Item::Volume(raw) => writer.volume(
            amita_types::VolumeId(raw.volume),
            raw.generation,
            amita_types::NodeId(raw.owner),
        ),
        Item::Chunk(item) => writer.chunk(item),
        Item::Origin(origin) => writer.origin(*origin),
        Item::State(item) => writer.state(item),
        Item::Older(item) => writer.older(item),
        Item::Mark(mark) => writer.mark(mark),
        Item::Cleared { first, count, version } => writer.cleared(first / count, *version),
        Item::Slots { position, first, bits } => {
            writer.slots(*position, *first, &bits.words().collect::<Vec<u64>>());
        }
        Item::Shared(counts) => writer.shared(&counts.iter().collect::<Vec<_>>()),
        Item::Past(past) => writer.past(*past),
    }
}

/// What items say, however they are divided.
fn said(items: &[Item<'_>]) -> Vec<String> {
    let mut said = Vec::new();
    for item in items {
        match item {
            Item::Slots { position, first, bits } => {
                said.push(format!("{position} {first} {:?}", bits.words().collect::<Vec<u64>>()));
            }
            Item::Shared(counts) => said.extend(counts.iter().map(|count| format!("{count:?}"))),
            item => said.push(format!("{item:?}")),
        }
    }
    said
}

/// A leaf. The page is read as the one that it says it is.
pub fn leaf(input: &[u8]) {
    let Some(page) = page(input) else { return };
    let Some(header) = leaf::Header::get(&page) else {
        return;
    };
    let chunk = ChunkId {
        volume: VolumeId(header.volume),
        index: ChunkIndex(header.chunk),
    };
    let part = usize::from(header.part);
    let sum = u32::from_le_bytes(page[PAGE_BYTES - 4..].try_into().expect("cut into 4"));
    let slots = 1000;
    let Ok(entries) = leaf::decode(&page, STORE, chunk, part, sum, slots) else {
        return;
    };
    assert!(entries.iter().all(|entry| !entry.has_data() || entry.slot.0 < slots));
    assert!(leaf::decode(&page, STORE, chunk, part + 1, sum, slots).is_err());
    assert!(leaf::decode(&page, STORE, chunk, part, sum ^ 1, slots).is_err());
    let mut again = [0; PAGE_BYTES];
    let sum = leaf::encode(
        &mut again,
        STORE,
        chunk,
        part,
        header.checkpoint,
        entries.iter().copied(),
    );
    assert_eq!(
        leaf::decode(&again, STORE, chunk, part, sum, slots).as_ref(),
        Ok(&entries)
    );
}
