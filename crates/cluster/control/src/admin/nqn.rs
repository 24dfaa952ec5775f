//! NVMe qualified names: what is one (NVM Express Base 2.1, 4.7).

use super::{AdminError, Result};

/// The longest name: 223 bytes (4.7; the field has 224, the last of which is a zero).
pub const MAX_NQN_BYTES: usize = 223;
/// The form of names that are a UUID: this, and the UUID's 36 characters.
const UUID_FORM: &str = "nqn.2014-08.org.nvmexpress:uuid:";
/// The name under which every discovery service answers: it is nobody's own.
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Is this an NVMe qualified name? `nqn.YYYY-MM.REVERSED.DOMAIN:ANYTHING`, or the form with a UUID.
///
/// # Errors
/// Says what is wrong with it.
pub fn check_nqn(what: &'static str, nqn: &str) -> Result<()> {
    match fault(nqn) {
        None => Ok(()),
        Some(why) => Err(AdminError::BadName {
            what,
            name: nqn.to_owned(),
            why,
        }),
    }
}

fn fault(nqn: &str) -> Option<String> {
    let form = "the form is nqn.YYYY-MM.REVERSED.DOMAIN:ANYTHING, or nqn.2014-08.org.nvmexpress:uuid:UUID";
    if nqn.len() > MAX_NQN_BYTES {
        return Some(format!(
            "it has {} bytes, and an NVMe qualified name has at most {MAX_NQN_BYTES}",
            nqn.len()
        ));
    }
    // The specification takes any UTF-8; what cannot be seen in a list is not taken here.
    if let Some(c) = nqn.chars().find(|c| c.is_whitespace() || c.is_control()) {
        return Some(format!("it contains {c:?}"));
    }
    if nqn == DISCOVERY {
        return Some("that is the name of every discovery service".to_owned());
    }
    if let Some(uuid) = nqn.strip_prefix(UUID_FORM) {
        return (!is_uuid(uuid))
            .then(|| format!("what follows {UUID_FORM} is no UUID of the form 01234567-89ab-cdef-0123-456789abcdef"));
    }
    let Some(rest) = nqn.strip_prefix("nqn.") else {
        return Some(format!("it does not begin with \"nqn.\"; {form}"));
    };
    let Some((date, rest)) = rest.split_once('.') else {
        return Some(form.to_owned());
    };
    if !is_month(date) {
        return Some(format!("{date:?} is no year and month of the form YYYY-MM"));
    }
    let Some((domain, rest)) = rest.split_once(':') else {
        return Some(format!("there is no ':' after the domain; {form}"));
    };
    if !is_domain(domain) {
        return Some(format!("{domain:?} is no domain name in reverse, as com.example"));
    }
    rest.is_empty().then(|| "nothing follows the ':'".to_owned())
}

fn is_month(text: &str) -> bool {
    let Some((year, month)) = text.split_once('-') else {
        return false;
    };
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    digits(year, 4) && digits(month, 2) && matches!(month.parse(), Ok(1..=12))
}

fn is_domain(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.split('.').all(label)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
