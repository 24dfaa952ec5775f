//! Kinds of things that an operator is told of: each with its name, its weight and its meaning, in one table.

/// Makes `Kind` of such a table: what the whole is, a colon, then `/// meaning`, `Variant "name" Severity "what to do"`, and so on.
macro_rules! kinds {
    ($(#[doc = $what:literal])+ : $($(#[doc = $doc:literal])+ $kind:ident $name:literal $severity:ident $advice:literal,)+) => {
        $(#[doc = $what])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)+];

            /// Its name: stable, and what scripts may rely on.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)+ }
            }

            /// How much it matters.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Kind::$kind => Severity::$severity,)+ }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Kind::$kind => concat!($($doc),+),)+ }
                .trim()
            }

            /// What to do about it, in a sentence or two.
            #[must_use]
            pub fn advice(self) -> &'static str {
                match self { $(Kind::$kind => $advice,)+ }
            }
        }
    };
}

pub(crate) use kinds;
