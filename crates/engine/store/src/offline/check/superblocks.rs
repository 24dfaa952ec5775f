//! The two superblocks.

use super::super::{Problem, Report};
use crate::format::superblock::{Fault, OFFSETS, Superblock};

pub(super) fn check(copies: &[Result<Superblock, Fault>; 2], report: &mut Report, most: usize) {
    let (a, b) = match copies {
        [Ok(a), Ok(b)] => (a, b),
        [Err(_), Err(_)] => return,
        _ => {
            for (&offset, copy) in OFFSETS.iter().zip(copies) {
                if let Err(fault) = *copy {
                    report.add(Problem::Superblock { offset, fault }, most);
                }
            }
            return;
        }
    };
    let generations = [a.generation, b.generation];
    let apart = a.generation.abs_diff(b.generation);
    let what = if a.store != b.store {
        Some("the store's UUID")
    } else if a.geometry != b.geometry {
        Some("where the regions lie")
    } else if apart == 0 && a != b {
        Some("what they say, with the same generation")
    } else if apart > 1 {
        Some("more than one change")
    } else {
        None
    };
    if let Some(what) = what {
        report.add(Problem::SuperblocksDisagree { generations, what }, most);
    } else if apart == 1 {
        let (older, newer) = (a.generation.min(b.generation), a.generation.max(b.generation));
        report.add(Problem::SuperblocksApart { older, newer }, most);
    }
}
