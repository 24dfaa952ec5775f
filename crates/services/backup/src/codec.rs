//! How what is inside of an object is written: little-endian, lengths as LEB128.

/// What does not follow the format, and where that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

#[derive(Default)]
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn fixed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.fixed(bytes);
    }
}

pub(crate) struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (front, rest) = self.0.split_at_checked(count).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(front)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (front, rest) = self.0.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*front)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// One spelling for each number: the shortest.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                let shortest = byte != 0 || shift == 0;
                return shortest
                    .then_some(value)
                    .ok_or(Malformed("a number is not in its shortest form"));
            }
        }
        Err(Malformed("a number has more than 64 bits"))
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed("a number has more than 32 bits"))
    }

    /// How many things follow, of at least `least` bytes each: more than can be there are refused before memory is taken for them.
    pub fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = self.number()?;
        let possible = count <= (self.0.len() / least.max(1)) as u64;
        possible
            .then_some(count as usize)
            .ok_or(Malformed("a count is larger than what follows"))
    }

    pub fn bytes(&mut self, most: usize) -> Result<&'a [u8], Malformed> {
        let length = self.number()?;
        if length > most as u64 {
            return Err(Malformed("a field is longer than it may be"));
        }
        self.take(length as usize)
    }

    pub fn text(&mut self, most: usize) -> Result<String, Malformed> {
        let bytes = self.bytes(most)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a text is not UTF-8"))
    }

    pub fn end(&self) -> Result<(), Malformed> {
        self.0
            .is_empty()
            .then_some(())
            .ok_or(Malformed("something follows its end"))
    }
}
