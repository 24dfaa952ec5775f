//! iSCSI names: what is one, and how two are the same (RFC 7143, 4.2.7; RFC 3722).
//!
//! Names are compared byte for byte, once they are in the form that RFC 3722 gives them: capitals stand for small letters. Of what is not
//! ASCII that form needs the tables of Unicode 3.2, and no initiator that is known has such a name: those are not taken.

/// The longest name (RFC 7143, 4.2.7: 223 bytes, without the null that ends it on the wire).
pub const MAX_ISCSI_NAME_BYTES: usize = 223;

/// The name in the form in which names are kept and compared.
///
/// # Errors
/// Says in words what is wrong with it.
pub fn canonical(name: &str) -> Result<String, String> {
    if name.len() > MAX_ISCSI_NAME_BYTES {
        return Err(format!(
            "it has {} bytes, and an iSCSI name has at most {MAX_ISCSI_NAME_BYTES}",
            name.len()
        ));
    }
    // RFC 3722, 6: of ASCII, nothing else is left in a name.
    let strange = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':'));
    match name.chars().find(strange) {
        Some(c) if c.is_ascii() => {
            return Err(format!(
                "it contains {c:?}; letters, digits, '-', '.' and ':' are allowed"
            ));
        }
        Some(c) => {
            return Err(format!(
                "it contains {c:?}, which is not ASCII: give the initiator or the target a name of ASCII's letters and digits"
            ));
        }
        None => {}
    }
    let name = name.to_ascii_lowercase();
    match name.split_once('.') {
        Some(("iqn", rest)) => check_iqn(rest)?,
        // RFC 7143, 4.2.7.5.
        Some(("eui", rest)) => check_digits("eui.", rest, &[16])?,
        // RFC 7143, 4.2.7.6.
        Some(("naa", rest)) => check_digits("naa.", rest, &[16, 32])?,
        _ => return Err(format!("it does not begin with \"iqn.\", \"eui.\" or \"naa.\"; {FORM}")),
    }
    Ok(name)
}

const FORM: &str =
    "the form is iqn.YYYY-MM.REVERSED.DOMAIN:ANYTHING, eui. with 16 hexadecimal digits, or naa. with 16 or 32";

/// What follows `iqn.` (RFC 7143, 4.2.7.4): when the domain was its owner's, the domain, and, behind a colon, what the owner likes.
fn check_iqn(rest: &str) -> Result<(), String> {
    let Some((date, rest)) = rest.split_once('.') else {
        return Err(FORM.to_owned());
    };
    if !is_month(date) {
        return Err(format!("{date:?} is no year and month of the form YYYY-MM"));
    }
    let (domain, own) = match rest.split_once(':') {
        Some((domain, own)) => (domain, Some(own)),
        None => (rest, None),
    };
    if !domain.split('.').all(is_label) {
        return Err(format!("{domain:?} is no domain name in reverse, as com.example"));
    }
    match own {
        Some("") => Err("nothing follows the ':'".to_owned()),
        _ => Ok(()),
    }
}

fn is_month(text: &str) -> bool {
    let Some((year, month)) = text.split_once('-') else {
        return false;
    };
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    digits(year, 4) && digits(month, 2) && matches!(month.parse::<u8>(), Ok(1..=12))
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn check_digits(kind: &str, digits: &str, lengths: &[usize]) -> Result<(), String> {
    if lengths.contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(());
    }
    let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
    Err(format!(
        "what follows {kind} is not {} hexadecimal digits",
        lengths.join(" or ")
    ))
}

#[cfg(test)]
mod tests;
