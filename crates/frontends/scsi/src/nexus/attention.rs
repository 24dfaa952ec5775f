//! Unit attention conditions of one logical unit for one nexus (SAM-5, "Unit attention condition").

use crate::sense::{Code, code};

/// The most that can be pending at once: each is there once at the most.
pub const MAX_ATTENTIONS: usize = 16;

/// What is pending, what is told first at the front: what stands for a reset before all others, these in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attentions(Vec<Code>);

/// Additional sense code of what stands for a reset of some kind.
const RESET: u8 = 0x29;

/// Which of the resets says more: SAM-5 has them in this order ("Unit attention condition precedence level"), the loss of a nexus last.
fn rank(code: Code) -> usize {
    const ORDER: [Code; 4] = [
        code::POWER_ON,
        code::POWER_ON_OR_RESET,
        code::DEVICE_RESET,
        code::NEXUS_LOSS,
    ];
    ORDER.iter().position(|known| *known == code).unwrap_or(ORDER.len())
}

impl Attentions {
    /// Is nothing pending?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one, if it is not there and nothing says it already. After a reset, what was before it is no news: it clears all others.
    pub fn raise(&mut self, code: Code) {
        if self.0.contains(&code) {
            return;
        }
        if code.0 != RESET {
            if self.0.len() < MAX_ATTENTIONS {
                self.0.push(code);
            }
            return;
        }
        match self.0.first() {
            // The loss of a nexus clears nothing; a reset that is pending says more than one that says less.
            Some(first) if first.0 == RESET && rank(*first) < rank(code) => {}
            _ if code == code::NEXUS_LOSS => self.0.insert(0, code),
            _ => self.0 = vec![code],
        }
    }

    /// Takes what is to be told first.
    pub fn take(&mut self) -> Option<Code> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// The host knows it from elsewhere.
    pub fn forget(&mut self, code: Code) {
        self.0.retain(|known| *known != code);
    }
}
