//! What holds for the crate as a whole.

mod shown;
mod world;
