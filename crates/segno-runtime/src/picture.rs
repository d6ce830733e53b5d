//! Images: their kind and size by their own first bytes.
//!
//! Responsible for: reading a header. Must not: decode pixels, or trust a media type that somebody wrote down.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, ImageReader};
use segno_model::picture::Size;
use std::io::Cursor;

/// How much of an image is looked at for its size first, as base64; some begin with long remarks.
const HEAD: usize = 64 * 1024;

/// The media type and the size that an image's own bytes tell; none for what is damaged or of another kind than
/// those that models take.
#[must_use]
pub fn header(base64: &str) -> Option<(&'static str, Size)> {
    let read = |base64: &str| {
        let bytes = STANDARD.decode(base64).ok()?;
        let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
        let media_type = media_type(reader.format()?)?;
        let (width, height) = reader.into_dimensions().ok()?;
        Some((media_type, Size { width, height }))
    };
    base64.get(..HEAD).and_then(read).or_else(|| read(base64))
}

/// The media type of a format that models take.
#[must_use]
pub fn media_type(format: ImageFormat) -> Option<&'static str> {
    match format {
        ImageFormat::Png => Some("image/png"),
        ImageFormat::Jpeg => Some("image/jpeg"),
        ImageFormat::Gif => Some("image/gif"),
        ImageFormat::WebP => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size comes from the bytes, and no pixels are needed.
    #[test]
    fn the_size_is_read_off_the_header() {
        let mut out = Cursor::new(Vec::new());
        image::RgbImage::new(640, 480).write_to(&mut out, ImageFormat::Png).expect("encoded");
        let whole = out.into_inner();
        let read = Some(("image/png", Size { width: 640, height: 480 }));
        assert_eq!(header(&STANDARD.encode(&whole)), read);
        assert_eq!(header(&STANDARD.encode(&whole[..60])), read);
        for damaged in ["", "AAAA", "no base64"] {
            assert_eq!(header(damaged), None, "{damaged}");
        }
    }
}
