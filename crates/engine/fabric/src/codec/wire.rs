//! Little-endian structs of a size that the compiler checks, and a reader that cannot run over the end.

use super::error::DecodeError;

/// What is left to read of a head.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let (front, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::HeadShort)?;
        self.rest = rest;
        Ok(front)
    }

    /// Is nothing left?
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything that is left.
    pub(super) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Nothing may be left: every kind has an exact length.
    pub(super) fn end(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::HeadLong { extra: self.rest.len() })
        }
    }
}

/// A struct as it stands on the wire.
pub(super) trait Wire: Sized {
    /// Bytes on the wire.
    const BYTES: usize;

    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads it.
    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// Defines a struct as it stands on the wire: its fields in order, little-endian, without padding, and its size.
macro_rules! wire {
    ($(#[$doc:meta])* $name:ident: $bytes:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        struct $name {
            $($(#[$field_doc])* $field: $type,)*
        }

        impl Wire for $name {
            const BYTES: usize = $bytes;

            fn put(&self, out: &mut Vec<u8>) {
                let mut bytes = [0; $bytes];
                let mut rest = bytes.as_mut_slice();
                $(
                    let (field, after) = rest.split_at_mut(size_of::<$type>());
                    field.copy_from_slice(&self.$field.to_le_bytes());
                    rest = after;
                )*
                debug_assert!(rest.is_empty());
                out.extend_from_slice(&bytes);
            }

            fn get(reader: &mut Reader<'_>) -> Result<$name, DecodeError> {
                let mut fields = Reader::new(reader.array::<$bytes>()?);
                Ok($name { $($field: <$type>::from_le_bytes(*fields.array()?),)* })
            }
        }

        const _: () = assert!(0 $(+ size_of::<$type>())* == $bytes, "the size of a struct on the wire is fixed");
    };
}
pub(super) use wire;
