//! The halves of a stream, and reading and writing for all that can.

use super::handle::{Handle, Waiter};
use super::stream::StripedStream;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

/// The half of a stream that reads. See [`StripedStream::split`].
#[derive(Debug)]
pub struct ReadHalf {
    pub(super) handle: Arc<Handle>,
}

/// The half of a stream that writes. See [`StripedStream::split`].
#[derive(Debug)]
pub struct WriteHalf {
    pub(super) handle: Arc<Handle>,
}

impl Drop for ReadHalf {
    fn drop(&mut self) {
        self.handle.shutdown(Shutdown::Read);
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.handle.shutdown(Shutdown::Write);
    }
}

impl StripedStream {
    /// A half that reads and one that writes, for two threads. Dropping one shuts its direction down.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (ReadHalf { handle: self.handle.clone() }, WriteHalf { handle: self.handle })
    }
}

macro_rules! reads_blocks {
    ($($who:ty),*) => {$(
        impl $who {
            /// The next bytes of the stream, in the memory that they came in: some hundred kilobytes at most, nothing at
            /// the end. Spares a program that can do with any number of bytes the copy that [`Read::read`] makes.
            /// `spent` is a block that is done with, whose memory is used again; an empty one at first.
            pub fn read_block(&self, spent: Vec<u8>) -> io::Result<Vec<u8>> {
                self.handle.read_block(spent)
            }
        }
    )*};
}

macro_rules! writes_blocks {
    ($($who:ty),*) => {$(
        impl $who {
            /// Write all of a block without copying it, where it is not longer than 128 KiB, lanes are fast and the
            /// partition is [`Partition::Auto`](super::Partition::Auto); otherwise as [`Write::write_all`] does. Where it
            /// was not copied, `block` has become other memory to fill, of any length and contents.
            pub fn write_block(&self, block: &mut Vec<u8>) -> io::Result<()> {
                if self.handle.write_block(block)? { Ok(()) } else { (&mut &*self).write_all(block) }
            }
        }
    )*};
}

macro_rules! reads {
    ($($who:ty),*) => {$(
        impl Read for $who {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.handle.read(buf, Waiter::Thread)
            }
        }
    )*};
}

macro_rules! writes {
    ($($who:ty),*) => {$(
        impl Write for $who {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.handle.write(buf, Waiter::Thread)
            }

            /// Nothing is held back that flushing could send.
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    )*};
}

reads_blocks!(StripedStream, ReadHalf);
writes_blocks!(StripedStream, WriteHalf);
reads!(StripedStream, &StripedStream, ReadHalf, &ReadHalf);
writes!(StripedStream, &StripedStream, WriteHalf, &WriteHalf);
