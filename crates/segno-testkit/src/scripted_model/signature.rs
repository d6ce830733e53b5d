//! Signatures of reasoning, and ids that depend on nothing but the request.
//!
//! Responsible for: proving that reasoning that comes back is what a scripted model issued to this
//! model name, unchanged, even after the server was started anew. Must not: claim any security;
//! anyone can compute these.

/// Opens every signature; together with hexadecimal digits the whole is valid base64.
const MARK: &str = "U2Vnbm8x";

/// What a signature turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verified {
    /// Issued here, for this content.
    Intact,
    /// Issued here, for other content.
    Altered,
    /// Not issued here, or to another model.
    Foreign,
}

/// FNV-1a with 64 bits: short, stable for ever, good enough to tell contents apart.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// Signs content for one model on one wire.
pub(crate) fn sign(scope: &str, content: &str) -> String {
    sealed(&format!("{MARK}{:016x}{:016x}", hash(&[scope]), hash(&[scope, content])))
}

fn sealed(head: &str) -> String {
    format!("{head}{:016x}", hash(&[head]))
}

/// Judges a signature that came back with this content, or without any where that is allowed.
pub(crate) fn verify(scope: &str, content: Option<&str>, signature: &str) -> Verified {
    let issued_here = format!("{MARK}{:016x}", hash(&[scope]));
    let whole = match content {
        Some(content) => signature == sign(scope, content),
        None => {
            signature.starts_with(&issued_here)
                && signature.get(..MARK.len() + 32).is_some_and(|head| sealed(head) == signature)
        }
    };
    if whole {
        Verified::Intact
    } else if signature.starts_with(&issued_here) {
        Verified::Altered
    } else {
        Verified::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_knows_its_content_and_its_model() {
        let signature = sign("chat/m", "I think");
        let cut = &signature[..40];
        let rows = [
            ("chat/m", Some("I think"), signature.as_str(), Verified::Intact),
            ("chat/m", None, &signature, Verified::Intact),
            ("chat/m", Some("I thin"), &signature, Verified::Altered),
            ("chat/m", Some("I think"), cut, Verified::Altered),
            ("chat/m", None, cut, Verified::Altered),
            ("chat/n", Some("I think"), &signature, Verified::Foreign),
            ("chat/n", None, &signature, Verified::Foreign),
            ("chat/m", Some("I think"), "EqQBCkYIBBgC", Verified::Foreign),
            ("chat/m", None, "\u{e4}\u{f6}\u{fc}", Verified::Foreign),
        ];
        for (scope, content, signature, expected) in rows {
            assert_eq!(verify(scope, content, signature), expected, "{content:?} {signature}");
        }
        assert_eq!(signature.len() % 4, 0, "valid base64");
    }
}
