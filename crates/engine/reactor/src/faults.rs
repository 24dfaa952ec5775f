//! Fault switches: each turns one rule of the protocol off, so that a test can show that it would notice.
//!
//! Beside [`crate::buggify`], which only does what is lawful and rare, a switch makes the code wrong. A crate declares its
//! switches once, with [`fault_switches!`](crate::fault_switches), and asks at the place of the rule with one line,
//! `self.config.faults.has(Fault::NoCredits)`; what it then does wrong, if that is more than leaving a check out, stands in
//! the crate's `faults.rs`. Without the crate's feature `planted` there is nothing to switch: every question is answered
//! `false` at compile time.

/// Declares a crate's `Fault` (its switches, each with the rule that it turns off) and `Faults` (a set of them).
///
/// The crate must have a feature `planted`; its own unit tests have the switches without it.
#[macro_export]
macro_rules! fault_switches {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A rule that can be switched off, each a bug that a test must find.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Fault {
            $($(#[$doc])* $name),*
        }

        impl Fault {
            /// Every switch.
            pub const ALL: &[Fault] = &[$(Fault::$name),*];
        }

        /// The rules that are switched off.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Faults {
            #[cfg(any(test, feature = "planted"))]
            bits: u128,
        }

        const _: () = assert!(Fault::ALL.len() <= 128, "a set of switches is two words");

        impl Faults {
            /// Every rule holds.
            pub const NONE: Faults = Faults {
                #[cfg(any(test, feature = "planted"))]
                bits: 0,
            };

            /// These, and one more rule switched off.
            #[cfg(any(test, feature = "planted"))]
            #[must_use]
            pub const fn with(self, fault: Fault) -> Faults {
                Faults {
                    bits: self.bits | 1 << fault as u32,
                }
            }

            /// Is the rule switched off?
            #[cfg(any(test, feature = "planted"))]
            #[inline]
            #[must_use]
            pub const fn has(self, fault: Fault) -> bool {
                self.bits & 1 << fault as u32 != 0
            }

            /// Is the rule switched off? Never.
            #[cfg(not(any(test, feature = "planted")))]
            #[inline(always)]
            #[must_use]
            pub const fn has(self, _: Fault) -> bool {
                false
            }
        }
    };
}

#[cfg(test)]
#[expect(unexpected_cfgs, reason = "this crate has no switches of its own")]
mod tests {
    crate::fault_switches! {
        /// One.
        First,
        /// Another.
        Second,
    }

    #[test]
    fn a_rule_holds_until_it_is_switched_off() {
        assert!(Fault::ALL.iter().all(|&fault| !Faults::NONE.has(fault)));
        let faults = Faults::NONE.with(Fault::Second);
        assert!(faults.has(Fault::Second) && !faults.has(Fault::First));
    }
}
