//! How structures become bytes and pages get their checksum.

use super::{PAGE_BODY_BYTES, PAGE_BYTES};

/// Declares a structure on the disk: plain integers, little-endian, one after the other without gaps; its size is
/// asserted at compile time.
macro_rules! on_disk {
    ($(#[$doc:meta])* pub struct $name:ident [$bytes:literal] { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        const _: () = assert!(0 $(+ size_of::<$type>())* == $bytes, "the size on the disk is fixed");

        impl $name {
            /// Bytes on the disk.
            pub const BYTES: usize = $bytes;

            /// Writes it to the front of `out`, which must be long enough.
            pub fn put(&self, out: &mut [u8]) {
                let mut at = 0;
                $(
                    out[at..at + size_of::<$type>()].copy_from_slice(&self.$field.to_le_bytes());
                    at += size_of::<$type>();
                )*
                debug_assert_eq!(at, Self::BYTES);
            }

            /// Reads it from the front of `bytes`; `None` when they are too few.
            #[must_use]
            pub fn get(bytes: &[u8]) -> Option<Self> {
                let mut rest = bytes.get(..Self::BYTES)?;
                let value = $name {
                    $($field: {
                        let (head, tail) = rest.split_first_chunk()?;
                        rest = tail;
                        <$type>::from_le_bytes(*head)
                    },)*
                };
                debug_assert!(rest.is_empty());
                Some(value)
            }
        }
    };
}
pub(super) use on_disk;

/// Writes the checksum of a page's body behind it, and returns it.
pub fn seal(page: &mut [u8]) -> u32 {
    assert_eq!(page.len(), PAGE_BYTES, "a page is sealed whole");
    let sum = amita_types::crc32c(&page[..PAGE_BODY_BYTES]);
    page[PAGE_BODY_BYTES..].copy_from_slice(&sum.to_le_bytes());
    sum
}

/// A page whose checksum was found right.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'a> {
    /// All before the checksum.
    pub body: &'a [u8],
    /// The checksum.
    pub sum: u32,
}

/// Checks a page; `None` when it is not as it was sealed.
#[must_use]
pub fn sealed(page: &[u8]) -> Option<Sealed<'_>> {
    let (body, sum) = page.split_at_checked(PAGE_BODY_BYTES)?;
    let sum = u32::from_le_bytes(sum.try_into().ok()?);
    (amita_types::crc32c(body) == sum).then_some(Sealed { body, sum })
}
