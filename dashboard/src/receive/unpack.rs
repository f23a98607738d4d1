//! Gunzip with a cap: ten kilobytes of gzip can hold ten megabytes of zeros.
//!
//! Place in the flow: between reading a body and decoding it.

use flate2::read::MultiGzDecoder;
use std::io::Read as _;

/// Why a body cannot be unpacked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unpack {
    /// It holds more than the cap.
    TooLarge,
    /// It is no gzip, or cut off.
    Broken,
}

/// The bytes inside, at most `cap` of them.
pub(super) fn gunzip(body: &[u8], cap: usize) -> Result<Vec<u8>, Unpack> {
    let mut bytes = Vec::new();
    let limit = cap as u64 + 1;
    MultiGzDecoder::new(body).take(limit).read_to_end(&mut bytes).map_err(|_| Unpack::Broken)?;
    if bytes.len() > cap { Err(Unpack::TooLarge) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_body_is_unpacked_up_to_the_cap_and_not_beyond() {
        let packed = gzip(&[0; 1000]);
        assert_eq!(gunzip(&packed, 1000).unwrap().len(), 1000);
        assert_eq!(gunzip(&packed, 999), Err(Unpack::TooLarge));
        assert_eq!(gunzip(&packed[..packed.len() - 4], 1000), Err(Unpack::Broken));
        assert_eq!(gunzip(b"plain", 1000), Err(Unpack::Broken));
    }
}
