//! What an image must be, whoever looks at it.

use super::image::Image;
use super::probe::{ChunkContent, Probe, asker, read_chunk};
use super::trace::Right;
use amita_store::offline::{CheckOptions, check};
use amita_store::{Config, State};
use amita_types::message::{AnswerBody, Refusal};
use amita_types::{Epoch, Generation};

/// Chunks that are looked at.
const CHUNKS: u64 = 6;
/// Blocks that are looked at in each.
pub const BLOCKS: u16 = 32;

/// The image of a store that may have lost its power at any moment is whole: it mounts, and after what that mount has
/// written it mounts again, with the same content, and nothing is damaged. And the offline check finds nothing in it.
pub fn passes_check(image: &[u8]) {
    is_clean(image, true);
    let mut first = Probe::mount(Image::new(image), false);
    let again = first.image.clone();
    let found = content(&mut first);
    let mut second = Probe::mount(again, false);
    assert!(
        !second.store.status().mount.superblock_damaged,
        "the mount has written both anew"
    );
    assert!(
        !second.store.status().mount.ended_short,
        "what was cut off stays cut off"
    );
    assert_eq!(content(&mut second), found, "a second mount finds something else");
}

/// The offline check finds nothing that is not as it should be.
pub fn is_clean(image: &[u8], data: bool) {
    let options = CheckOptions {
        data,
        ..CheckOptions::default()
    };
    let report = check(&image, &Config::default(), &options, &mut |_| {});
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert!(report.is_clean(), "the check finds {problems:#?}");
    assert!(report.mount.is_some());
}

fn content(probe: &mut Probe) -> Vec<ChunkContent> {
    assert_eq!(*probe.store.state(), State::Serving);
    let mut right = Right {
        generation: Generation(1),
        epoch: Epoch(1),
    };
    // Whose it is, it says when somebody else asks.
    let mut owner = loop {
        let mut owner = asker(1 << 20, BLOCKS, right);
        match owner.fence(probe) {
            Ok(AnswerBody::Fenced) => break owner,
            Err(Refusal::Fenced { generation }) if generation > right.generation => right.generation = generation,
            Err(Refusal::StaleEpoch { epoch }) if epoch > right.epoch => right.epoch = epoch,
            other => panic!("a fence was answered with {other:?}"),
        }
    };
    (0..CHUNKS).map(|chunk| read_chunk(probe, &mut owner, chunk)).collect()
}
