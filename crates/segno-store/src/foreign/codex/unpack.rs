//! Compressed rollouts.
//!
//! Responsible for: unpacking a zstd file as a stream, and every byte before the place where it is broken.
//! Must not: know what is in it.
//!
//! The decoder holds back its last window until the frame ends, so that an error takes up to some MiB with
//! it. They are had by unpacking the frame once more with an end put behind its last whole block.

use super::super::input;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;

const MAGIC: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
/// An empty last block, and a checksum that nobody looks at.
const END: &[u8] = &[1, 0, 0, 0, 0, 0, 0];

/// Set where unpacking failed; the stream ends there.
pub(crate) type Torn = Rc<Cell<bool>>;

/// The bytes of a file, unpacked if it is a compressed one.
pub(crate) fn open(path: &Path) -> io::Result<(Box<dyn Read>, Torn)> {
    let mut file = BufReader::with_capacity(256 << 10, input::open(path)?);
    let torn = Torn::default();
    if !is_packed(file.fill_buf()?) {
        return Ok((Box::new(file), torn));
    }
    let unpacked = Unpacked {
        path: path.to_owned(),
        state: State::Between(file),
        frame: 0,
        given: 0,
        torn: Rc::clone(&torn),
    };
    Ok((Box::new(unpacked), torn))
}

/// Whether a file that begins so is a compressed one.
pub(super) fn is_packed(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

struct Unpacked {
    path: PathBuf,
    state: State,
    /// Where in the file the frame begins.
    frame: u64,
    /// How many of its bytes were handed on.
    given: u64,
    torn: Torn,
}

enum State {
    Between(BufReader<File>),
    Within(Box<StreamingDecoder<BufReader<File>, FrameDecoder>>),
    Broken(Box<StreamingDecoder<WholeBlocks, FrameDecoder>>),
    Ended,
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Ok(0),
                State::Between(file) => self.begin(file)?,
                State::Within(mut decoder) => match decoder.read(buffer) {
                    Ok(0) => {
                        self.frame += decoder.decoder.bytes_read_from_source();
                        self.state = State::Between(decoder.into_inner());
                    }
                    Ok(read) => {
                        self.given += read as u64;
                        self.state = State::Within(decoder);
                        return Ok(read);
                    }
                    Err(_) => self.recover(decoder.decoder.blocks_decoded())?,
                },
                State::Broken(mut decoder) => {
                    let read = decoder.read(buffer).unwrap_or(0);
                    if read > 0 {
                        self.state = State::Broken(decoder);
                    }
                    return Ok(read);
                }
            }
        }
    }
}

impl Unpacked {
    fn begin(&mut self, mut file: BufReader<File>) -> io::Result<()> {
        if file.fill_buf()?.is_empty() {
            return Ok(());
        }
        self.given = 0;
        match StreamingDecoder::new(file) {
            Ok(decoder) => self.state = State::Within(Box::new(decoder)),
            Err(_) => self.torn.set(true),
        }
        Ok(())
    }

    /// Goes on with what the decoder held back of the first `blocks` blocks.
    fn recover(&mut self, blocks: usize) -> io::Result<()> {
        self.torn.set(true);
        let mut file = BufReader::new(input::open(&self.path)?);
        file.seek(SeekFrom::Start(self.frame))?;
        let Ok(mut decoder) = StreamingDecoder::new(WholeBlocks::new(file, blocks)?) else {
            return Ok(());
        };
        if io::copy(&mut decoder.by_ref().take(self.given), &mut io::sink())? == self.given {
            self.state = State::Broken(Box::new(decoder));
        }
        Ok(())
    }
}

/// The beginning of a frame with an end behind it.
struct WholeBlocks {
    file: BufReader<File>,
    left: usize,
    ready: Vec<u8>,
    at: usize,
}

impl WholeBlocks {
    fn new(mut file: BufReader<File>, left: usize) -> io::Result<Self> {
        let mut ready = vec![0; MAGIC.len() + 1];
        file.read_exact(&mut ready)?;
        let more = header_rest(ready[MAGIC.len()]);
        let start = ready.len();
        ready.resize(start + more, 0);
        file.read_exact(&mut ready[start..])?;
        Ok(Self { file, left, ready, at: 0 })
    }

    fn next_block(&mut self) -> io::Result<()> {
        self.at = 0;
        self.ready.clear();
        if self.left == 0 {
            self.ready.extend_from_slice(END);
            return Ok(());
        }
        self.left -= 1;
        self.ready.resize(3, 0);
        self.file.read_exact(&mut self.ready)?;
        let header = u32::from_le_bytes([self.ready[0], self.ready[1], self.ready[2], 0]);
        // One byte stands for a whole block of a repeated one.
        let bytes = if header >> 1 & 3 == 1 { 1 } else { (header >> 3) as usize };
        self.ready[0] &= !1;
        self.ready.resize(3 + bytes, 0);
        self.file.read_exact(&mut self.ready[3..])
    }
}

/// How many bytes of a frame's header follow its descriptor.
fn header_rest(descriptor: u8) -> usize {
    let single = descriptor & 0x20 != 0;
    let window = usize::from(!single);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [usize::from(single), 2, 4, 8][usize::from(descriptor >> 6)];
    window + dictionary + size
}

impl Read for WholeBlocks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.ready.len() {
            self.next_block()?;
        }
        let read = (&self.ready[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}
