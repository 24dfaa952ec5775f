//! Connections that copy an image may last longer than others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is copied by one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lasting(Arc<AtomicUsize>);

/// An image is being copied. Dropped, it is not any more.
#[derive(Debug)]
pub(crate) struct Hold(Lasting);

impl Lasting {
    /// From now on something is copied.
    pub(crate) fn hold(&self) -> Hold {
        self.0.fetch_add(1, Ordering::Relaxed);
        Hold(self.clone())
    }

    /// Is anything copied?
    pub(crate) fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_lasts_for_as_long_as_anything_is_copied() {
        let lasting = Lasting::default();
        assert!(!lasting.is_held());
        let (one, other) = (lasting.hold(), lasting.clone().hold());
        drop(one);
        assert!(lasting.is_held());
        drop(other);
        assert!(!lasting.is_held());
    }
}
