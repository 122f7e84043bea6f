//! Striped streams in tasks.

use longhaul_stripe::{AsyncStripedStream, Streams, StripeOptions};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn pair(buffer: u64) -> (AsyncStripedStream, AsyncStripedStream) {
    let options = StripeOptions::new().streams(Streams::Fixed(3)).buffer(buffer);
    let listener = options.bind("127.0.0.1:0").unwrap();
    let near = options.connect(listener.local_addr().unwrap()).unwrap();
    (near.into(), listener.accept().unwrap().0.into())
}

fn run(task: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(task);
}

#[test]
fn two_tasks_on_one_thread_talk_with_each_other() {
    let bytes: Vec<u8> = (0..10 << 20).map(|i: u32| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
    // Far less room than there is data: each task waits for the other again and again.
    let (mut near, mut far) = pair(1 << 20);
    let sent = bytes.clone();
    run(async {
        let sending = tokio::spawn(async move {
            near.write_all(&sent).await.unwrap();
            near.shutdown().await.unwrap();
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.unwrap();
            answer
        });
        let mut got = vec![];
        far.read_to_end(&mut got).await.unwrap();
        far.write_all(b"thanks").await.unwrap();
        far.shutdown().await.unwrap();
        assert!(got == bytes);
        assert_eq!(sending.await.unwrap(), "thanks");
    });
}

#[test]
fn dropping_delivers_the_rest() {
    let (mut near, mut far) = pair(4 << 20);
    run(async {
        near.write_all(&[7; 1 << 20]).await.unwrap();
        drop(near);
        let mut got = vec![];
        far.read_to_end(&mut got).await.unwrap();
        assert!(got == [7; 1 << 20]);
    });
}

/// Asking whether all is delivered is no reason to be woken.
#[test]
fn a_task_that_waits_for_delivery_sleeps() {
    let options = |buffer| StripeOptions::new().streams(Streams::Fixed(3)).buffer(buffer);
    // More than the far end holds, so that not all is delivered while nobody reads.
    let listener = options(1 << 20).bind("127.0.0.1:0").unwrap();
    let mut near: AsyncStripedStream =
        options(8 << 20).connect(listener.local_addr().unwrap()).unwrap().into();
    let mut far = listener.accept().unwrap().0;
    let mut polls = 0;
    run(async {
        let mut written = 0;
        while let Poll::Ready(wrote) = poll_once(near.write(&[7; 1 << 16])).await {
            written += wrote.unwrap();
        }
        let reading = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            let mut got = vec![];
            std::io::Read::read_to_end(&mut far, &mut got).unwrap();
            got.len()
        });
        let mut shutdown = std::pin::pin!(near.shutdown());
        let delivered = std::future::poll_fn(|context| {
            polls += 1;
            shutdown.as_mut().poll(context)
        });
        delivered.await.unwrap();
        assert_eq!(reading.join().unwrap(), written);
    });
    assert!(polls < 1000, "asked {polls} times");
}

async fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}
