//! An interval, and how it is written into a page.
//!
//! ```text
//! objects   { tag u8, key, length, values }*     numbers as in LEB128: seven bits a byte, the lowest first
//! tag, key  1 the node | 2 a store: 16 bytes | 3 a core: number | 4 a volume: length, name in UTF-8 | 5 the rest
//! values    { metric u8, kind u8, value }*
//! value     kind 1 a rate: sum, maximum in thousandths a second
//!           kind 2 a gauge: average, milliseconds, maximum
//!           kind 3 a latency: sum in ns, number of buckets, { gap to the bucket before, count }*
//! ```
//!
//! A page has a fixed size. What has no room is told less exactly, and never left out in silence: volumes beyond the busiest join the rest,
//! and where stores and cores are very many, histograms become coarser.

use crate::buckets::{BUCKETS, Buckets};
#[cfg(test)]
use crate::metric::Kind;
use crate::metric::Metric;
use crate::object::Object;
use crate::value::{Figures, Value};
use amita_types::StoreId;

/// The longest name that is read.
const MAX_NAME_BYTES: u64 = 1024;

/// An interval at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// When it began, in seconds since 1970: a multiple of its part's step.
    pub at: u64,
    /// For how long of it figures were taken, in milliseconds.
    pub covered_ms: u64,
    /// The figures of each object; of the node and the rest once at most.
    pub objects: Vec<(Object, Figures)>,
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_value(out: &mut Vec<u8>, metric: Metric, value: &Value) {
    out.push(metric as u8);
    match value {
        Value::Rate { sum, max_milli } => {
            out.push(1);
            put(out, *sum);
            put(out, *max_milli);
        }
        Value::Gauge { mean, ms, max } => {
            out.push(2);
            put(out, *mean);
            put(out, *ms);
            put(out, *max);
        }
        Value::Latency(buckets) => {
            out.push(3);
            put(out, buckets.sum_ns());
            put(out, buckets.counts().len() as u64);
            let mut before = 0;
            for (at, count) in buckets.counts() {
                put(out, u64::from(at - before));
                put(out, *count);
                before = *at;
            }
        }
    }
}

/// Is there nothing in it?
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Rate { sum, .. } => *sum == 0,
        Value::Gauge { .. } => false,
        Value::Latency(buckets) => buckets.is_empty(),
    }
}

fn written(object: &Object, figures: &Figures) -> Vec<u8> {
    let mut values = Vec::new();
    for (metric, value) in figures.0.iter().filter(|(_, value)| !is_nothing(value)) {
        put_value(&mut values, *metric, value);
    }
    let mut out = Vec::with_capacity(values.len() + 32);
    match object {
        Object::Node => out.push(1),
        Object::Store(id) => {
            out.push(2);
            out.extend_from_slice(&id.0.to_le_bytes());
        }
        Object::Core(core) => {
            out.push(3);
            put(&mut out, u64::from(*core));
        }
        Object::Volume(name) => {
            out.push(4);
            put(&mut out, name.len() as u64);
            out.extend_from_slice(name.as_bytes());
        }
        Object::Rest => out.push(5),
    }
    put(&mut out, values.len() as u64);
    out.extend_from_slice(&values);
    out
}

/// A part of a page that is still to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn object(&mut self) -> Option<Object> {
        match self.byte()? {
            1 => Some(Object::Node),
            2 => {
                let id = self.bytes(16)?.try_into().ok()?;
                Some(Object::Store(StoreId(u128::from_le_bytes(id))))
            }
            3 => Some(Object::Core(u32::try_from(self.number()?).ok()?)),
            4 => {
                let length = self.number().filter(|length| *length <= MAX_NAME_BYTES)?;
                Some(Object::Volume(str::from_utf8(self.bytes(length)?).ok()?.to_owned()))
            }
            5 => Some(Object::Rest),
            _ => None,
        }
    }

    fn value(&mut self) -> Option<(u8, Value)> {
        let metric = self.byte()?;
        let value = match self.byte()? {
            1 => Value::Rate {
                sum: self.number()?,
                max_milli: self.number()?,
            },
            2 => Value::Gauge {
                mean: self.number()?,
                ms: self.number()?,
                max: self.number()?,
            },
            3 => {
                let sum_ns = self.number()?;
                let length = self.number().filter(|length| *length <= u64::from(BUCKETS))?;
                let mut counts = Vec::with_capacity(length as usize);
                let mut at = 0_u16;
                for _ in 0..length {
                    at = at.checked_add(u16::try_from(self.number()?).ok()?)?;
                    counts.push((at, self.number()?));
                }
                Value::Latency(Buckets::of(counts, sum_ns))
            }
            _ => return None,
        };
        Some((metric, value))
    }

    fn figures(&mut self) -> Option<Figures> {
        let mut figures = Figures::default();
        while !self.0.is_empty() {
            let (id, value) = self.value()?;
            // Of a later version: what it is called is not known here.
            if let Some(metric) = Metric::of(id)
                && metric.kind() == value.kind()
            {
                figures.0.insert(metric, value);
            }
        }
        Some(figures)
    }
}

/// The objects of a page that are wanted; none: it is not what a page has.
pub(crate) fn read(body: &[u8], wanted: &dyn Fn(&Object) -> bool) -> Option<Vec<(Object, Figures)>> {
    let mut reader = Reader(body);
    let mut found = Vec::new();
    while !reader.0.is_empty() {
        let object = reader.object()?;
        let length = reader.number()?;
        let values = reader.bytes(length)?;
        if wanted(&object) {
            found.push((object, Reader(values).figures()?));
        }
    }
    Some(found)
}

impl Frame {
    /// Its figures within so many bytes.
    pub(crate) fn write(&self, room: usize) -> Vec<u8> {
        let mut packed = Vec::new();
        for level in 0..=3 {
            packed = self.pack(level, room);
            // Nine tenths may be what is always told: then there is some room for volumes.
            if packed.len() <= room && self.fixed_bytes(level) <= room / 10 * 9 {
                return packed;
            }
        }
        if packed.len() > room { self.cut(room) } else { packed }
    }

    fn fixed(&self) -> impl Iterator<Item = &(Object, Figures)> {
        self.objects
            .iter()
            .filter(|(object, _)| !matches!(object, Object::Volume(_) | Object::Rest))
    }

    fn fixed_bytes(&self, level: u32) -> usize {
        self.fixed()
            .map(|(object, figures)| written(object, &figures.coarse(level)).len())
            .sum()
    }

    /// With as many volumes as there is room for, the busiest first; the others join the rest.
    fn pack(&self, level: u32, room: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for (object, figures) in self.fixed() {
            out.extend(written(object, &figures.coarse(level)));
        }
        let mut rest: Option<Figures> = None;
        let mut volumes: Vec<(&Object, &Figures)> = Vec::new();
        for (object, figures) in &self.objects {
            match object {
                Object::Volume(_) => volumes.push((object, figures)),
                Object::Rest => rest.get_or_insert_default().join(figures),
                _ => {}
            }
        }
        volumes.sort_by(|one, other| (other.1.weight(), one.0).cmp(&(one.1.weight(), other.0)));
        let texts: Vec<Vec<u8>> = volumes
            .iter()
            .map(|(object, figures)| written(object, &figures.coarse(level)))
            .collect();
        let mut named = texts.len();
        let mut used = out.len() + texts.iter().map(Vec::len).sum::<usize>();
        let mut last = rest.as_ref().map(|rest| written(&Object::Rest, &rest.coarse(level)));
        while named > 0 && used + last.as_ref().map_or(0, Vec::len) > room {
            named -= 1;
            used -= texts[named].len();
            rest.get_or_insert_default().join(volumes[named].1);
            // Written only where it may fit.
            last = match &rest {
                Some(rest) if used <= room => Some(written(&Object::Rest, &rest.coarse(level))),
                _ => None,
            };
        }
        if last.is_none()
            && let Some(rest) = &rest
        {
            last = Some(written(&Object::Rest, &rest.coarse(level)));
        }
        out.extend(texts.into_iter().take(named).flatten());
        out.extend(last.into_iter().flatten());
        out
    }

    /// More stores and cores than any page has room for: those that come last are left out.
    fn cut(&self, room: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for (object, figures) in self.fixed() {
            let text = written(object, &figures.coarse(3));
            if out.len() + text.len() <= room {
                out.extend(text);
            }
        }
        out
    }

    /// The next interval joins it.
    pub(crate) fn follow(&mut self, next: &Frame) {
        self.covered_ms = self.covered_ms.saturating_add(next.covered_ms);
        let mut known: std::collections::BTreeMap<Object, Figures> =
            std::mem::take(&mut self.objects).into_iter().collect();
        for (object, figures) in &next.objects {
            match known.get_mut(object) {
                Some(own) => own.follow(figures),
                None => drop(known.insert(object.clone(), figures.clone())),
            }
        }
        self.objects = known.into_iter().collect();
    }

    /// Keeps the busiest volumes by their names, so many of them; the others join the rest.
    pub(crate) fn keep(&mut self, most: usize) {
        let volumes = self
            .objects
            .iter()
            .filter(|(object, _)| matches!(object, Object::Volume(_)));
        if volumes.count() <= most {
            return;
        }
        let (mut volumes, mut others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.objects)
            .into_iter()
            .partition(|(object, _)| matches!(object, Object::Volume(_)));
        volumes.sort_by(|one, other| (other.1.weight(), &one.0).cmp(&(one.1.weight(), &other.0)));
        let mut rest = Figures::default();
        for (_, figures) in volumes.drain(most..) {
            rest.join(&figures);
        }
        match others.iter_mut().find(|(object, _)| *object == Object::Rest) {
            Some((_, known)) => known.join(&rest),
            None => others.push((Object::Rest, rest)),
        }
        others.extend(volumes);
        self.objects = others;
    }
}

/// Of what kind a figure is, for tests that make some.
#[cfg(test)]
pub(crate) fn of_kind(metric: Metric, number: u64) -> Value {
    match metric.kind() {
        Kind::Rate => Value::Rate {
            sum: number,
            max_milli: number.saturating_mul(100),
        },
        Kind::Gauge => Value::Gauge {
            mean: number,
            ms: 10_000,
            max: number.saturating_add(1),
        },
        Kind::Latency => Value::Latency(Buckets::of(
            [((number % 280) as u16, number)],
            number.saturating_mul(1000),
        )),
    }
}

#[cfg(test)]
mod tests;
