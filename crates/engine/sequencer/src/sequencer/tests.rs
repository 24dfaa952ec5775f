//! One concern after the other, with stores and metadata played by hand.

mod answers;
mod at_rest;
mod compare;
mod cut;
mod doubt;
mod evict;
mod fence;
mod look;
mod mend;
mod open;
mod parents;
mod read;
mod rig;
mod states;
mod steps;
mod submit;
mod sync;
mod write;
