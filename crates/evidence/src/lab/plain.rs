//! The least that carries a file over kernel TCP: the baseline that the lab's experiments compare programs with.
//!
//! A connection begins with what it carries: a part of a file, written where it belongs, or a tar stream, which
//! `tar` unpacks. The receiver answers with one byte when all has been written. Nothing is checked and nobody is
//! asked who they are: it is for hosts that only the lab can reach.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Take what comes into `folder` for as long as this process lives. A connection that fails is told on standard error.
pub fn receive(listen: SocketAddr, folder: &Path) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    thread::scope(|scope| {
        for connection in listener.incoming() {
            let connection = connection?;
            scope.spawn(move || {
                if let Err(error) = take(connection, folder) {
                    eprintln!("a connection failed: {error}");
                }
            });
        }
        Ok(())
    })
}

/// Send a file over so many connections, or a folder as a tar stream over one; done when the other side has written all.
pub fn send(source: &Path, address: SocketAddr, streams: u32, congestion: Option<&str>) -> io::Result<()> {
    if source.is_dir() {
        return send_tar(source, connect(address, congestion)?);
    }
    let bytes = source.metadata()?.len();
    let part = bytes.div_ceil(u64::from(streams.max(1))).max(1);
    let starts = (0..bytes.max(1)).step_by(usize::try_from(part).unwrap_or(usize::MAX));
    thread::scope(|scope| {
        let senders: Vec<_> = starts
            .map(|start| {
                let len = part.min(bytes - start.min(bytes));
                scope.spawn(move || send_part(source, start, len, connect(address, congestion)?))
            })
            .collect();
        let join = |sender: thread::ScopedJoinHandle<'_, io::Result<()>>| {
            sender.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
        };
        senders.into_iter().try_for_each(join)
    })
}

fn connect(address: SocketAddr, congestion: Option<&str>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(name) = congestion {
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    socket.connect(&SockAddr::from(address))?;
    Ok(socket.into())
}

fn send_part(source: &Path, start: u64, len: u64, mut connection: TcpStream) -> io::Result<()> {
    let mut file = File::open(source)?;
    file.seek(SeekFrom::Start(start))?;
    connection.write_all(&head(Some((start, len)), source)?)?;
    // The standard library hands it to sendfile.
    io::copy(&mut file.take(len), &mut connection)?;
    await_answer(connection)
}

fn send_tar(source: &Path, mut connection: TcpStream) -> io::Result<()> {
    connection.write_all(&head(None, source)?)?;
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(source.parent().unwrap_or(source)).args(["-cf", "-", "--"]);
    tar.arg(source.file_name().unwrap_or_default()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut tar = tar.spawn()?;
    if let Some(mut packed) = tar.stdout.take() {
        io::copy(&mut packed, &mut connection)?;
    }
    if !tar.wait()?.success() {
        return Err(io::Error::other("tar cannot pack it"));
    }
    connection.shutdown(Shutdown::Write)?;
    await_answer(connection)
}

fn await_answer(mut connection: TcpStream) -> io::Result<()> {
    connection.read_exact(&mut [0])
}

/// What a connection carries: the part of a file (start and length) or, where there is none, a tar stream; and the name.
fn head(part: Option<(u64, u64)>, source: &Path) -> io::Result<Vec<u8>> {
    let name = source.file_name().unwrap_or_default().as_encoded_bytes();
    let name_len = u8::try_from(name.len()).map_err(|_| io::Error::other("its name is too long"))?;
    let (start, len) = part.unwrap_or((0, TAR_LEN));
    let mut head = vec![];
    head.extend(start.to_be_bytes());
    head.extend(len.to_be_bytes());
    head.push(name_len);
    head.extend(name);
    Ok(head)
}

fn take(mut connection: TcpStream, folder: &Path) -> io::Result<()> {
    let mut numbers = [0; 17];
    connection.read_exact(&mut numbers)?;
    let number =
        |at: usize| numbers[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (start, len) = (number(0), number(8));
    let mut name = vec![0; usize::from(numbers[16])];
    connection.read_exact(&mut name)?;
    if len == TAR_LEN {
        unpack(&mut connection, folder)?;
    } else {
        let name = String::from_utf8(name).map_err(io::Error::other)?;
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(name))?;
        file.seek(SeekFrom::Start(start))?;
        copy_blocks(&mut connection, &mut file, len)?;
    }
    connection.write_all(&[0])
}

fn unpack(connection: &mut TcpStream, folder: &Path) -> io::Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(folder).args(["--no-same-owner", "-xf", "-"]).stdin(Stdio::piped());
    let mut tar = tar.spawn()?;
    if let Some(mut packed) = tar.stdin.take() {
        copy_blocks(connection, &mut packed, u64::MAX)?;
    }
    if tar.wait()?.success() { Ok(()) } else { Err(io::Error::other("tar cannot unpack it")) }
}

/// So many bytes, or all until the end.
fn copy_blocks(from: &mut impl Read, to: &mut impl Write, len: u64) -> io::Result<()> {
    let mut block = vec![0; BLOCK_LEN];
    let mut left = len;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        match from.read(&mut block[..most])? {
            0 if len == u64::MAX => return Ok(()),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                to.write_all(&block[..read])?;
                left -= read as u64;
            }
        }
    }
    Ok(())
}

/// In place of a length: until the connection's end, for `tar`.
const TAR_LEN: u64 = u64::MAX;
const BLOCK_LEN: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A receiver that ends with the test's process.
    fn receiver(folder: &Path) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, folder) = (listener.local_addr().unwrap(), folder.to_owned());
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let folder = folder.clone();
                thread::spawn(move || take(connection, &folder));
            }
        });
        address
    }

    #[test]
    fn parts_come_together_whatever_their_number() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let address = receiver(to.path());
        for (name, len, streams) in [("empty", 0, 4), ("one", 1, 4), ("many", 1_000_003, 8)] {
            let mut content = vec![0; len];
            fastrand::Rng::with_seed(1).fill(&mut content);
            fs::write(from.path().join(name), &content).unwrap();
            send(&from.path().join(name), address, streams, None).unwrap();
            assert!(fs::read(to.path().join(name)).unwrap() == content, "{name}");
        }
    }

    #[test]
    fn folders_come_by_tar() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("top/below")).unwrap();
        fs::write(from.path().join("top/below/file"), "content").unwrap();
        send(&from.path().join("top"), receiver(to.path()), 1, None).unwrap();
        assert_eq!(fs::read(to.path().join("top/below/file")).unwrap(), b"content");
    }
}
