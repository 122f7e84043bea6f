//! Striped streams for tasks.

use super::handle::Waiter;
use super::stream::StripedStream;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A [`StripedStream`] to be used in tasks. It needs no particular runtime.
///
/// Connecting and accepting wait, so they belong into `tokio::task::spawn_blocking`; [`From`] makes what they return
/// asynchronous. Shutting down, as `AsyncWriteExt::shutdown` does, waits until the other side has all that was written.
/// If that is left out, dropping the stream delivers the rest from a thread of its own.
#[derive(Debug)]
pub struct AsyncStripedStream {
    /// There until it is dropped.
    stream: Option<StripedStream>,
}

impl AsyncStripedStream {
    /// The stream itself, for what needs no waiting.
    pub fn get_ref(&self) -> &StripedStream {
        self.stream.as_ref().expect("it is there until it is dropped")
    }

    /// Back to a stream for threads.
    pub fn into_inner(mut self) -> StripedStream {
        self.stream.take().expect("it is there until it is dropped")
    }
}

impl From<StripedStream> for AsyncStripedStream {
    fn from(stream: StripedStream) -> AsyncStripedStream {
        AsyncStripedStream { stream: Some(stream) }
    }
}

impl Drop for AsyncStripedStream {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            // Waiting for the rest to be delivered must not hold up other tasks. If no thread can be had, it does.
            let _ = std::thread::Builder::new().name("stripe-close".into()).spawn(move || drop(stream));
        }
    }
}

impl AsyncRead for AsyncStripedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.get_ref().handle.read(buf.initialize_unfilled(), Waiter::Task(context.waker()));
        pending(read).map_ok(|len| buf.advance(len))
    }
}

impl AsyncWrite for AsyncStripedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        pending(self.get_ref().handle.write(buf, Waiter::Task(context.waker())))
    }

    /// Nothing is held back that flushing could send.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let handle = &self.get_ref().handle;
        handle.shutdown(Shutdown::Write);
        handle.poll_delivered(context.waker()).map_or(Poll::Pending, Poll::Ready)
    }
}

fn pending<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        other => Poll::Ready(other),
    }
}
