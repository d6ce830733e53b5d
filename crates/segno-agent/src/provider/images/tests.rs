//! Images in, what is sent of them out.
//!
//! Responsible for: what each kind of image becomes. Must not: need a file.

use super::*;
use crate::provider::sendable::Takes;
use crate::provider::wire::Wire;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::{DynamicImage, ImageFormat, RgbImage, RgbaImage};
use std::io::Cursor;

fn bytes(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, format).expect("encoded");
    out.into_inner()
}

fn encoded(image: &DynamicImage, format: ImageFormat) -> String {
    STANDARD.encode(bytes(image, format))
}

/// A picture without plain areas, so that nothing compresses it away.
fn noise(width: u32, height: u32) -> DynamicImage {
    let mut seed = 0x2545_f491_u32;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed.to_le_bytes()[0]
    };
    RgbImage::from_fn(width, height, |_, _| image::Rgb([next(), next(), next()])).into()
}

fn takes(wire: Wire) -> &'static ImageTakes {
    &Takes::of(wire).images
}

/// Type and size of what goes, or why nothing goes.
fn show(base64: &str, takes: &ImageTakes) -> String {
    match scale::fit(base64, takes) {
        Fitted::AsIs => "as it is".to_owned(),
        Fitted::Left(why) => why.to_owned(),
        Fitted::Copy { media_type, base64 } => {
            let (actual, size) = header(&base64).expect("an image");
            assert_eq!(actual, media_type);
            assert_eq!(judge(media_type, &base64, takes), Judged::Fits);
            format!("{media_type} {size}")
        }
    }
}

/// Covers: G6. What each kind of image becomes; the copy always fits.
#[test]
fn images_are_made_to_fit_or_named() {
    let small = noise(30, 20);
    let wide = DynamicImage::from(RgbImage::new(4_000, 10));
    let clear = DynamicImage::from(RgbaImage::new(2_400, 1_200));
    let png = |image: &DynamicImage| encoded(image, ImageFormat::Png);
    let mut cut = bytes(&small, ImageFormat::Png);
    cut.truncate(cut.len() / 2);
    let anthropic = takes(Wire::Anthropic);
    let cases = [
        ("a small one", png(&small), anthropic, "as it is"),
        ("too wide", png(&wide), anthropic, "image/png 2000x5"),
        ("with transparency", png(&clear), anthropic, "image/png 2000x1000"),
        ("wide elsewhere", png(&wide), takes(Wire::OpenAiResponses), "as it is"),
        (
            "a photograph",
            encoded(&noise(2_100, 700), ImageFormat::Jpeg),
            anthropic,
            "image/jpeg 2000x667",
        ),
        ("a gif", encoded(&small, ImageFormat::Gif), anthropic, "as it is"),
        (
            "a gif where it is not known",
            encoded(&small, ImageFormat::Gif),
            takes(Wire::Gemini),
            "image/png 30x20",
        ),
        (
            "a webp where it is not known",
            encoded(&small, ImageFormat::WebP),
            takes(Wire::OpenAiChat),
            "image/png 30x20",
        ),
        ("cut off", STANDARD.encode(cut), anthropic, "it is damaged, or no image of a known kind"),
        (
            "text",
            STANDARD.encode("no image"),
            anthropic,
            "it is damaged, or no image of a known kind",
        ),
        ("no base64", "a?b=".to_owned(), anthropic, "it is damaged, or no image of a known kind"),
    ];
    for (label, base64, takes, expected) in cases {
        assert_eq!(show(&base64, takes), expected, "{label}");
    }
}

/// What compresses badly becomes a JPEG before it becomes smaller.
#[test]
fn bytes_are_saved_before_pixels() {
    let tight = ImageTakes { base64_bytes: 400_000, ..*takes(Wire::Anthropic) };
    let drawn = encoded(&noise(500, 500), ImageFormat::Png);
    assert!(drawn.len() > tight.base64_bytes);
    assert_eq!(show(&drawn, &tight), "image/jpeg 500x500");
    let tighter = ImageTakes { base64_bytes: 40_000, ..tight };
    assert!(show(&drawn, &tighter).starts_with("image/jpeg "));
    assert_eq!(
        show(&drawn, &ImageTakes { base64_bytes: 10, ..tight }),
        "it cannot be made small enough"
    );
}

/// A few bytes that claim to be a huge picture are never opened.
#[test]
fn a_bomb_is_not_opened() {
    let mut bomb = bytes(&noise(1, 1), ImageFormat::Png);
    // Width and height in the header, with a checksum that fits.
    bomb[16..24].copy_from_slice(&[0, 0, 0x70, 0, 0, 0, 0x70, 0]);
    let crc = crc32(&bomb[12..29]).to_be_bytes();
    bomb[29..33].copy_from_slice(&crc);
    assert_eq!(
        show(&STANDARD.encode(bomb), takes(Wire::Anthropic)),
        "it is too large to be opened"
    );
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |mut crc, byte| {
        crc ^= u32::from(*byte);
        (0..8).for_each(|_| crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 });
        crc
    })
}

/// Covers: G10. The same image gives the same bytes whenever it is asked for.
#[tokio::test]
async fn a_copy_is_the_same_every_time() {
    let takes = takes(Wire::Anthropic);
    let large = encoded(&noise(2_050, 40), ImageFormat::Png);
    let first = cache::fitted(&large, takes).await;
    assert_eq!(first, cache::fitted(&large, takes).await);
    assert_eq!(first, scale::fit(&large, takes));
}

/// A type that somebody wrote down is not believed.
#[test]
fn the_bytes_say_what_an_image_is() {
    let jpeg = encoded(&noise(10, 10), ImageFormat::Jpeg);
    let takes = takes(Wire::Anthropic);
    assert_eq!(judge("image/png", &jpeg, takes), Judged::Mistyped("image/jpeg"));
    assert_eq!(judge("image/jpeg", &jpeg, takes), Judged::Fits);
    assert!(matches!(judge("image/jpeg", "aW1n", takes), Judged::Unfit(_)));
}
