//! The halves of a stream, and reading and writing for all that can.

use super::stream::{Handle, StripedStream, Waiter};
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

reads!(StripedStream, &StripedStream, ReadHalf, &ReadHalf);
writes!(StripedStream, &StripedStream, WriteHalf, &WriteHalf);
