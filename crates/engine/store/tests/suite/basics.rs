//! What a store does, one rule after the other.

mod device;
mod fences;
mod rolls;
mod space;
mod writes;

use crate::common::{BLOCK, Requester, Rig, version};
use amita_types::Version;
use amita_types::message::AnswerBody;

const MIB: u64 = 1 << 20;

fn fenced() -> (Rig, Requester) {
    let mut rig = Rig::fresh(4 * MIB, false);
    let mut asker = Requester::new(1);
    assert_eq!(asker.fence(&mut rig), Ok(AnswerBody::Fenced));
    (rig, asker)
}

fn find(haystack: &[u8], needle: &[u8]) -> usize {
    haystack
        .chunks(BLOCK)
        .position(|block| block == needle)
        .expect("the block is on the disk")
        * BLOCK
}

fn version_or_none(counter: u64) -> Version {
    if counter == 0 {
        Version::NONE
    } else {
        version(1, counter)
    }
}
