//! The API over the metadata's model: what is answered, and what is refused.

mod every;
mod owners;
mod specification;
mod volumes;
mod world;
