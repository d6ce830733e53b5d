//! Images: their kind and size by their own first bytes.
//!
//! Responsible for: reading a header. Must not: decode pixels, or trust a media type that somebody wrote down.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imagesize::ImageType;
use segno_model::picture::Size;

/// How much of an image is looked at for its size first, as base64; some begin with long remarks.
const HEAD: usize = 64 * 1024;

/// The media type and the size that an image's own bytes tell; none for what is damaged or of another kind than
/// those that models take.
#[must_use]
pub fn header(base64: &str) -> Option<(&'static str, Size)> {
    let read = |base64: &str| {
        let bytes = STANDARD.decode(base64).ok()?;
        let media_type = media_type(imagesize::image_type(&bytes).ok()?)?;
        let size = imagesize::blob_size(&bytes).ok()?;
        let (width, height) = (size.width.try_into().ok()?, size.height.try_into().ok()?);
        Some((media_type, Size { width, height }))
    };
    base64.get(..HEAD).and_then(read).or_else(|| read(base64))
}

fn media_type(format: ImageType) -> Option<&'static str> {
    match format {
        ImageType::Png => Some("image/png"),
        ImageType::Jpeg => Some("image/jpeg"),
        ImageType::Gif => Some("image/gif"),
        ImageType::Webp => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size comes from the bytes, and no pixels are needed.
    #[test]
    fn the_size_is_read_off_the_header() {
        // A PNG's signature and its first chunk.
        let mut whole = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        whole.extend([0, 0, 2, 0x80, 0, 0, 1, 0xe0, 8, 2, 0, 0, 0]);
        let read = Some(("image/png", Size { width: 640, height: 480 }));
        assert_eq!(header(&STANDARD.encode(&whole)), read);
        for damaged in ["", "AAAA", "no base64"] {
            assert_eq!(header(damaged), None, "{damaged}");
        }
    }
}
