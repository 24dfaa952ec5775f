//! Which figures are kept.

/// How a figure is kept, and how several of it become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// So much was counted: an average and a maximum a second.
    Rate,
    /// So much there was: an average and a maximum.
    Gauge,
    /// How long each took: a histogram.
    Latency,
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $metric:ident = $id:literal, $name:literal $kind:ident $unit:literal,)+) => {
        /// A figure. Its number stands in files, and stays.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Metric {
            $($(#[doc = $doc])+ $metric = $id,)+
        }

        impl Metric {
            /// All of them.
            pub const ALL: &[Metric] = &[$(Metric::$metric,)+];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Metric::$metric => $name,)+ }
            }

            /// How it is kept.
            #[must_use]
            pub fn kind(self) -> Kind {
                match self { $(Metric::$metric => Kind::$kind,)+ }
            }

            /// In what it is told.
            #[must_use]
            pub fn unit(self) -> &'static str {
                match self { $(Metric::$metric => $unit,)+ }
            }

            /// By its number; none: a later version knows it.
            #[must_use]
            pub fn of(id: u8) -> Option<Metric> {
                match id { $($id => Some(Metric::$metric),)+ _ => None }
            }
        }
    };
}

metrics! {
    /// Reads and writes.
    Iops = 1, "iops" Rate "1/s",
    /// Reads.
    ReadIops = 2, "read-iops" Rate "1/s",
    /// Writes.
    WriteIops = 3, "write-iops" Rate "1/s",
    /// Bytes read and written.
    Bytes = 4, "bytes" Rate "B/s",
    /// Bytes read.
    ReadBytes = 5, "read-bytes" Rate "B/s",
    /// Bytes written.
    WriteBytes = 6, "write-bytes" Rate "B/s",
    /// Reads and writes that failed.
    Errors = 7, "errors" Rate "1/s",
    /// How long reads took.
    ReadLatency = 8, "read-latency" Latency "ns",
    /// How long writes took.
    WriteLatency = 9, "write-latency" Latency "ns",
    /// Bytes for data.
    Capacity = 10, "capacity" Gauge "B",
    /// Of them, bytes that hold something.
    Used = 11, "used" Gauge "B",
    /// Processor time, in whole processors.
    Cpu = 12, "cpu" Rate "processors",
    /// Bytes moved to bring stores up to date.
    Recovery = 13, "recovery" Rate "B/s",
    /// Bytes sent to other nodes.
    NetworkSent = 14, "network-sent" Rate "B/s",
    /// Bytes received from other nodes.
    NetworkReceived = 15, "network-received" Rate "B/s",
    /// Requests that stores have answered.
    Requests = 16, "requests" Rate "1/s",
}

impl Metric {
    /// How much of what is counted is one of its unit.
    #[must_use]
    pub fn scale(self) -> f64 {
        match self {
            // Nanoseconds of a second.
            Metric::Cpu => 1e9,
            _ => 1.0,
        }
    }
}

/// A figure by the name that somebody asks for it by: one that is kept, or several added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The name.
    pub name: &'static str,
    /// What is added. All are of one kind and unit.
    pub of: &'static [Metric],
}

impl Asked {
    /// The latency of reads and writes together.
    pub const LATENCY: Asked = Asked {
        name: "latency",
        of: &[Metric::ReadLatency, Metric::WriteLatency],
    };

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let kept = Metric::ALL.iter().map(|metric| metric.name());
        kept.chain([Asked::LATENCY.name])
    }

    /// What goes by a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Asked> {
        if name == Asked::LATENCY.name {
            return Some(Asked::LATENCY);
        }
        let at = Metric::ALL.iter().position(|metric| metric.name() == name)?;
        Some(Asked {
            name: Metric::ALL[at].name(),
            of: &Metric::ALL[at..=at],
        })
    }

    /// One that is kept.
    #[must_use]
    pub fn of(metric: Metric) -> Asked {
        Asked::named(metric.name()).unwrap_or(Asked::LATENCY)
    }

    /// How it is kept.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.of[0].kind()
    }

    /// In what it is told.
    #[must_use]
    pub fn unit(self) -> &'static str {
        self.of[0].unit()
    }

    /// How much of what is counted is one of its unit.
    #[must_use]
    pub fn scale(self) -> f64 {
        self.of[0].scale()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back() {
        for metric in Metric::ALL {
            assert_eq!(Metric::of(*metric as u8), Some(*metric));
            assert_eq!(Asked::named(metric.name()).map(|asked| asked.of), Some(&[*metric][..]));
            assert_eq!(Asked::of(*metric).name, metric.name());
        }
        assert_eq!((Metric::of(0), Metric::of(200)), (None, None));
        assert_eq!(Asked::named("latency"), Some(Asked::LATENCY));
        assert_eq!(Asked::named("speed"), None);
    }
}
