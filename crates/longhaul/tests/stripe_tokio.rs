//! Striped streams in tasks.

use longhaul::stripe::{AsyncStripedStream, Streams, StripeOptions};
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
