//! Opening an image within bounds, and making a smaller copy.
//!
//! Responsible for: one pure function. Must not: cache, or know a provider's name.

use super::{Fitted, Judged, judge};
use crate::provider::sendable::ImageTakes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder as _, ImageError, ImageFormat, ImageReader, Limits, Rgb};
use std::io::Cursor;

/// No image with a longer side is opened.
const MAX_SIDE: u32 = 30_000;
/// How much memory an opened image may take: a small file can hold a huge one.
const MAX_ALLOC: u64 = 256 * 1024 * 1024;
/// No copy is made smaller than this.
const LEAST_SIDE: u32 = 64;
/// Qualities of JPEG that are tried, best first.
const QUALITIES: [u8; 3] = [85, 70, 50];

const DAMAGED: &str = "it is damaged, or no image of a known kind";
const TOO_LARGE: &str = "it is too large to be opened";

/// What an image becomes for a provider that takes `takes`.
pub(super) fn fit(base64: &str, takes: &ImageTakes) -> Fitted {
    let Ok(bytes) = STANDARD.decode(base64) else { return Fitted::Left(DAMAGED) };
    let judged = judge("", base64, takes);
    let (format, image) = match open(bytes) {
        Ok(opened) => opened,
        // A kind of its format that only we cannot open may be fine for the provider.
        Err(ImageError::Unsupported(_)) if matches!(judged, Judged::Mistyped(_)) => {
            return Fitted::AsIs;
        }
        Err(ImageError::Limits(_)) => return Fitted::Left(TOO_LARGE),
        Err(_) => return Fitted::Left(DAMAGED),
    };
    match judged {
        Judged::Fits | Judged::Mistyped(_) => Fitted::AsIs,
        Judged::Unfit(_) => copy(format, image, takes),
    }
}

/// Opens an image, the right way up. Of an animation, the first picture.
fn open(bytes: Vec<u8>) -> Result<(ImageFormat, DynamicImage), ImageError> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_ALLOC);
    reader.limits(limits.clone());
    let format = reader.format().unwrap_or(ImageFormat::Png);
    let mut decoder = reader.into_decoder()?;
    // The picture itself is not among what a decoder counts.
    limits.reserve(decoder.total_bytes())?;
    let orientation = decoder.orientation()?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok((format, image))
}

/// The largest copy that fits: as lines are kept sharp where the original is drawn (PNG), and as JPEG where it
/// is a photograph or would be too large otherwise.
fn copy(format: ImageFormat, image: DynamicImage, takes: &ImageTakes) -> Fitted {
    let mut side = takes.side.min(image.width().max(image.height()));
    let mut image = image;
    loop {
        if image.width().max(image.height()) > side {
            image = image.resize(side, side, FilterType::Triangle);
        }
        let sharp = (format != ImageFormat::Jpeg).then(|| png(&image)).flatten();
        let qualities = QUALITIES.into_iter().map(|quality| jpeg(&image, quality));
        let mut candidates = std::iter::once(sharp).chain(qualities).flatten();
        if let Some((format, base64)) =
            candidates.find(|(_, base64)| base64.len() <= takes.base64_bytes)
            && let Some(media_type) = media_type(format)
        {
            return Fitted::Copy { media_type, base64 };
        }
        side = side / 4 * 3;
        if side < LEAST_SIDE {
            return Fitted::Left("it cannot be made small enough");
        }
    }
}

fn png(image: &DynamicImage) -> Option<(ImageFormat, String)> {
    // Sixteen bits a channel are twice the bytes, and models see eight.
    let image = match image.color().has_alpha() {
        true => DynamicImage::from(image.to_rgba8()),
        false => DynamicImage::from(image.to_rgb8()),
    };
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, ImageFormat::Png).ok()?;
    Some((ImageFormat::Png, STANDARD.encode(out.into_inner())))
}

fn jpeg(image: &DynamicImage, quality: u8) -> Option<(ImageFormat, String)> {
    let mut out = Vec::new();
    JpegEncoder::new_with_quality(&mut out, quality).encode_image(&on_white(image)).ok()?;
    Some((ImageFormat::Jpeg, STANDARD.encode(out)))
}

/// JPEG has no transparency: what is not there is white.
fn on_white(image: &DynamicImage) -> image::RgbImage {
    if !image.color().has_alpha() {
        return image.to_rgb8();
    }
    let rgba = image.to_rgba8();
    image::RgbImage::from_fn(rgba.width(), rgba.height(), |x, y| {
        let [r, g, b, a] = rgba.get_pixel(x, y).0.map(u32::from);
        let over = |c: u32| u8::try_from((c * a + 255 * (255 - a)) / 255).unwrap_or(u8::MAX);
        Rgb([over(r), over(g), over(b)])
    })
}

fn media_type(format: ImageFormat) -> Option<&'static str> {
    match format {
        ImageFormat::Png => Some("image/png"),
        ImageFormat::Jpeg => Some("image/jpeg"),
        ImageFormat::Gif => Some("image/gif"),
        ImageFormat::WebP => Some("image/webp"),
        _ => None,
    }
}
