//! Why a server refuses (`Result Reason`, OASIS KMIP 1.4, section 9.1.3.2.29, and 2.1, section 11.48), and what to do.

use super::KmipAsks;

const ITEM_NOT_FOUND: u32 = 0x01;
const RESPONSE_TOO_LARGE: u32 = 0x02;
const AUTHENTICATION_NOT_SUCCESSFUL: u32 = 0x03;
const INVALID_MESSAGE: u32 = 0x04;
const OPERATION_NOT_SUPPORTED: u32 = 0x05;
const MISSING_DATA: u32 = 0x06;
const INVALID_FIELD: u32 = 0x07;
const FEATURE_NOT_SUPPORTED: u32 = 0x08;
const CRYPTOGRAPHIC_FAILURE: u32 = 0x0a;
const ILLEGAL_OPERATION: u32 = 0x0b;
const PERMISSION_DENIED: u32 = 0x0c;
const OBJECT_ARCHIVED: u32 = 0x0d;
const KEY_FORMAT_TYPE_NOT_SUPPORTED: u32 = 0x10;
const KEY_VALUE_NOT_PRESENT: u32 = 0x13;
const SENSITIVE: u32 = 0x16;
const NOT_EXTRACTABLE: u32 = 0x17;
const USAGE_LIMIT_EXCEEDED: u32 = 0x1a;
const BAD_CRYPTOGRAPHIC_PARAMETERS: u32 = 0x24;
const INCOMPATIBLE_CRYPTOGRAPHIC_USAGE_MASK: u32 = 0x29;
const INTERNAL_SERVER_ERROR: u32 = 0x2a;
const OBJECT_DESTROYED: u32 = 0x36;
const OBJECT_NOT_FOUND: u32 = 0x37;
const NOT_AUTHORISED: u32 = 0x39;
const SERVER_LIMIT_EXCEEDED: u32 = 0x3a;
const UNSUPPORTED_CRYPTOGRAPHIC_PARAMETERS: u32 = 0x3e;
const UNSUPPORTED_PROTOCOL_VERSION: u32 = 0x3f;
const WRONG_KEY_LIFECYCLE_STATE: u32 = 0x43;
const PROTECTION_STORAGE_UNAVAILABLE: u32 = 0x44;
const GENERAL_FAILURE: u32 = 0x100;

/// Its name, for people.
pub(super) fn named(reason: Option<u32>) -> String {
    let name = match reason {
        None => "it gives no reason",
        Some(ITEM_NOT_FOUND) => "Item Not Found",
        Some(RESPONSE_TOO_LARGE) => "Response Too Large",
        Some(AUTHENTICATION_NOT_SUCCESSFUL) => "Authentication Not Successful",
        Some(INVALID_MESSAGE) => "Invalid Message",
        Some(OPERATION_NOT_SUPPORTED) => "Operation Not Supported",
        Some(MISSING_DATA) => "Missing Data",
        Some(INVALID_FIELD) => "Invalid Field",
        Some(FEATURE_NOT_SUPPORTED) => "Feature Not Supported",
        Some(CRYPTOGRAPHIC_FAILURE) => "Cryptographic Failure",
        Some(ILLEGAL_OPERATION) => "Illegal Operation",
        Some(PERMISSION_DENIED) => "Permission Denied",
        Some(OBJECT_ARCHIVED) => "Object Archived",
        Some(KEY_FORMAT_TYPE_NOT_SUPPORTED) => "Key Format Type Not Supported",
        Some(KEY_VALUE_NOT_PRESENT) => "Key Value Not Present",
        Some(SENSITIVE) => "Sensitive",
        Some(NOT_EXTRACTABLE) => "Not Extractable",
        Some(USAGE_LIMIT_EXCEEDED) => "Usage Limit Exceeded",
        Some(BAD_CRYPTOGRAPHIC_PARAMETERS) => "Bad Cryptographic Parameters",
        Some(INCOMPATIBLE_CRYPTOGRAPHIC_USAGE_MASK) => "Incompatible Cryptographic Usage Mask",
        Some(INTERNAL_SERVER_ERROR) => "Internal Server Error",
        Some(OBJECT_DESTROYED) => "Object Destroyed",
        Some(OBJECT_NOT_FOUND) => "Object Not Found",
        Some(NOT_AUTHORISED) => "Not Authorised",
        Some(SERVER_LIMIT_EXCEEDED) => "Server Limit Exceeded",
        Some(UNSUPPORTED_CRYPTOGRAPHIC_PARAMETERS) => "Unsupported Cryptographic Parameters",
        Some(UNSUPPORTED_PROTOCOL_VERSION) => "Unsupported Protocol Version",
        Some(WRONG_KEY_LIFECYCLE_STATE) => "Wrong Key Lifecycle State",
        Some(PROTECTION_STORAGE_UNAVAILABLE) => "Protection Storage Unavailable",
        Some(GENERAL_FAILURE) => "General Failure",
        Some(other) => return format!("reason {other:#x}"),
    };
    name.to_owned()
}

/// What to do (the server's own words stand before it). `asked`: what it refuses. Who unwraps has wrapped before, so to give the key away is no way
/// out then.
pub(super) fn hint(asked: KmipAsks, reason: Option<u32>) -> &'static str {
    if is_of_tag(asked, reason) {
        return ": the record was changed, or the server's key of that identifier is another one than it was: put the right one back; else the server's \
                log says why";
    }
    match reason {
        Some(ITEM_NOT_FOUND | OBJECT_NOT_FOUND) => {
            ": it has no key of that unique identifier, or shows it to nobody with this certificate: name the right one, or give this client the right to it"
        }
        Some(AUTHENTICATION_NOT_SUCCESSFUL | NOT_AUTHORISED) => {
            ": it does not know this client: register the certificate of cert-file there (for client authentication), or name the right one"
        }
        Some(OPERATION_NOT_SUPPORTED | FEATURE_NOT_SUPPORTED | UNSUPPORTED_CRYPTOGRAPHIC_PARAMETERS) => match asked {
            KmipAsks::Encrypt => ": it does not wrap by AES-GCM: have it give the key (way=get)",
            KmipAsks::Decrypt => {
                ": it does not unwrap by AES-GCM, which it has to have done once: the server's log says why"
            }
            KmipAsks::Get => ": it gives no keys: have it wrap (way=encrypt)",
        },
        Some(BAD_CRYPTOGRAPHIC_PARAMETERS | MISSING_DATA | INVALID_FIELD) => match asked {
            KmipAsks::Encrypt => {
                ": is it an AES key of 256 bits, and does the server do AES-GCM? Else have it give the key (way=get)"
            }
            KmipAsks::Decrypt | KmipAsks::Get => ": the server's log says why",
        },
        Some(INVALID_MESSAGE | UNSUPPORTED_PROTOCOL_VERSION) => ": does it speak that version of KMIP (version=)?",
        Some(CRYPTOGRAPHIC_FAILURE | GENERAL_FAILURE) => ": the server's log says why",
        Some(PERMISSION_DENIED) => {
            ": this client may not use the key so, or the key is not active, or not for encryption and decryption (Cryptographic Usage Mask): see to that \
             there"
        }
        Some(ILLEGAL_OPERATION | WRONG_KEY_LIFECYCLE_STATE | OBJECT_ARCHIVED) => {
            ": the key is not active there: activate or recover it"
        }
        Some(INCOMPATIBLE_CRYPTOGRAPHIC_USAGE_MASK) => ": the key is to be one for encryption and decryption",
        Some(USAGE_LIMIT_EXCEEDED) => ": the key may be used no more: raise its usage limits there",
        Some(OBJECT_DESTROYED | KEY_VALUE_NOT_PRESENT) => ": the key is gone there: restore it",
        Some(SENSITIVE | NOT_EXTRACTABLE) => {
            ": it gives that key to nobody: have it wrap (way=encrypt), or allow there that it is given"
        }
        Some(KEY_FORMAT_TYPE_NOT_SUPPORTED) => ": it gives that key in no raw form: name an AES key of 256 bits",
        _ => "",
    }
}

/// Is it worth asking again?
pub(super) fn is_passing(reason: Option<u32>) -> bool {
    matches!(
        reason,
        Some(INTERNAL_SERVER_ERROR | SERVER_LIMIT_EXCEEDED | PROTECTION_STORAGE_UNAVAILABLE)
    )
}

/// A tag that is not of what was given may be refused so, where it was asked to decrypt: servers have different names for it, and PyKMIP none.
pub(super) fn is_of_tag(asked: KmipAsks, reason: Option<u32>) -> bool {
    asked == KmipAsks::Decrypt
        && matches!(
            reason,
            Some(CRYPTOGRAPHIC_FAILURE | INVALID_FIELD | BAD_CRYPTOGRAPHIC_PARAMETERS | GENERAL_FAILURE)
        )
}

/// It may be of anything.
pub(super) fn is_unclear(reason: Option<u32>) -> bool {
    reason == Some(GENERAL_FAILURE)
}
