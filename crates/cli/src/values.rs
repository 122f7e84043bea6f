//! The other values that flags take: durations, port ranges, addresses, secrets, lists of files.

use longhaul::{Collector, CollectorName, DEFAULT_PORT, Location};
use longhaul_proto::streams::STREAMS_MAX;
use longhaul_proto::streams::Streams;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Read `60s`, `500ms`, `2m`, `1h`, or plain seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().map_err(|_| "not a duration; write it like 60s or 2m")?;
    let seconds = match text[split..].trim() {
        "" | "s" | "sec" => number,
        "ms" => number / 1e3,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        unit => return Err(format!("{unit:?} is not a unit of time; write ms, s, m or h")),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(span) if (SHORTEST_STALL..=LONGEST_STALL).contains(&span) => Ok(span),
        _ => Err("must be between 1s and 24h".into()),
    }
}

/// Read `auto` or a number.
pub fn parse_streams(text: &str) -> Result<Streams, String> {
    match text.parse() {
        Ok(streams) if (1..=STREAMS_MAX).contains(&streams) => Ok(Streams::Fixed(streams)),
        _ if text == "auto" => Ok(Streams::Auto),
        _ => Err(format!("give a number from 1 to {STREAMS_MAX}, or auto")),
    }
}

/// Read `7700-7799`, or one port.
pub fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let port = |text: &str| match text.trim().parse() {
        Ok(0) | Err(_) => Err(format!("{text:?} is not a port (1 to 65535)")),
        Ok(port) => Ok(port),
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err(format!("the range runs backwards; write {last}-{first}"));
    }
    Ok(first..=last)
}

/// Find what is told of flows.
pub fn open_collector(name: CollectorName) -> Result<Collector, String> {
    let opened = Collector::open(name.clone());
    opened.map_err(|error| {
        format!("{name}: this collector is not found ({}); check its name", describe(&error))
    })
}

/// Read mebibytes of memory for a server's copies.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "not a number of mebibytes".into()).and_then(check_memory)
}

/// What is less holds the list of no part of a copy.
pub fn check_memory(mib: u64) -> Result<u64, String> {
    if (64..1 << 24).contains(&mib) { Ok(mib) } else { Err("mebibytes: at least 64".into()) }
}

/// Read where to listen: `ADDR:PORT`, `[ADDR]:PORT`, `ADDR`, `:PORT` or `PORT`.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let any = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    text.parse()
        .ok()
        .or_else(|| bare.parse::<IpAddr>().ok().map(|address| SocketAddr::from((address, DEFAULT_PORT))))
        .or_else(|| text.strip_prefix(':').unwrap_or(text).parse().ok().map(any))
        .ok_or_else(|| {
            format!("not an address to listen at; write ADDR:PORT, such as 192.0.2.1:{DEFAULT_PORT}")
        })
}

/// Where a secret was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFrom {
    /// `--token-file`.
    File(PathBuf),
    /// The environment variable [`TOKEN_ENV`].
    Environment,
}

/// A shared secret, and what the user should know about it.
#[derive(Debug)]
pub struct Token {
    /// The secret.
    pub secret: longhaul::Token,
    /// Where it was found.
    pub from: TokenFrom,
    /// Something to say about it.
    pub warning: Option<String>,
}

/// The secret that `--token-file` or the environment gives; the file wins, and an empty variable is none. The error is a
/// line for the user.
pub fn find_token(file: Option<&Path>) -> Result<Option<Token>, String> {
    if let Some(path) = file {
        return token_in("--token-file", path).map(Some);
    }
    let Some(value) = std::env::var_os(TOKEN_ENV).filter(|value| !value.is_empty()) else { return Ok(None) };
    let secret = check_secret(value.into_encoded_bytes()).map_err(|e| format!("{TOKEN_ENV}: {e}"))?;
    Ok(Some(Token { secret, from: TokenFrom::Environment, warning: None }))
}

/// The token in a file that a flag names.
pub fn token_in(flag: &str, path: &Path) -> Result<Token, String> {
    read_token(path).map_err(|e| format!("{flag} {}: {e}", path.display()))
}

/// A command's words, split at white space: the one that reaches a host, plain `ssh` unless another is named.
pub fn words(command: Option<&str>) -> Vec<OsString> {
    command.unwrap_or("ssh").split_whitespace().map(OsString::from).collect()
}

/// A bare name, or address, is a host reached by ssh.
pub fn host_of(host: &str) -> Result<Location, String> {
    let is_url = host.starts_with("longhaul://");
    if !is_url && (host.contains('/') || host.is_empty()) {
        return Err(format!("{host:?} is no host; write HOST, user@HOST or longhaul://HOST"));
    }
    let (user, name) = host.rfind('@').map_or(("", host), |at| host.split_at(at + 1));
    let text = match name.split('%').next().map(str::parse::<Ipv6Addr>) {
        Some(Ok(_)) => format!("{user}[{name}]:"),
        _ if is_url || host.ends_with(':') => host.into(),
        _ => format!("{host}:"),
    };
    Location::parse(&OsString::from(text)).map_err(|error| error.to_string())
}

fn read_token(path: &Path) -> Result<Token, String> {
    let file = File::open(path).map_err(|e| describe(&e))?;
    let mode = file.metadata().map_err(|e| describe(&e))?.permissions().mode();
    let mut bytes = Vec::new();
    file.take(TOKEN_LEN_MAX + 1).read_to_end(&mut bytes).map_err(|e| describe(&e))?;
    let secret = check_secret(bytes)?;
    let warning = (mode & 0o044 != 0).then(|| {
        let path = path.display();
        format!("{path} can be read by other users of this host; run: chmod 600 {path}")
    });
    Ok(Token { secret, from: TokenFrom::File(path.into()), warning })
}

fn check_secret(bytes: Vec<u8>) -> Result<longhaul::Token, String> {
    if bytes.len() as u64 > TOKEN_LEN_MAX {
        return Err(format!("longer than {TOKEN_LEN_MAX} bytes, so not a token"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "not text, so not a token")?;
    match text.trim() {
        "" => Err("holds no token".into()),
        secret if secret.contains('\n') => Err("holds more than one line; a token is a single one".into()),
        secret => Ok(longhaul::Token::from(secret)),
    }
}

/// Read the list that `--files-from` names (`-`: standard input): one path a line, relative, none leaving the source.
pub fn read_file_list(path: &Path) -> Result<Vec<PathBuf>, String> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|e| format!("--files-from {}: {}", path.display(), describe(&e)))?;
    let lines = bytes.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(at, line)| list_entry(line).map_err(|e| format!("{}:{}: {e}", path.display(), at + 1)))
        .collect()
}

fn list_entry(line: &[u8]) -> Result<PathBuf, String> {
    let path = PathBuf::from(OsString::from_vec(line.into()));
    if path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
        Ok(path)
    } else {
        Err(format!("{path:?} must be relative to the source and stay below it"))
    }
}

/// Read a number of bytes: `64GiB`, `500MB`, or plain bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().map_err(|_| "not a size; write it like 64GiB")?;
    let unit = match text[split..].trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" | "k" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        "TiB" | "T" => 1 << 40,
        unit => {
            return Err(format!(
                "{unit:?} is not a unit of size; write kB, MB, GB, TB or KiB, MiB, GiB, TiB"
            ));
        }
    };
    number
        .checked_mul(unit)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "must be between 1 byte and 16 EiB".into())
}

/// An I/O error in a few words, without the number.
pub fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Environment variable that holds the daemon's token.
pub const TOKEN_ENV: &str = "LONGHAUL_TOKEN";
/// Environment variable that says what to log.
pub const LOG_ENV: &str = "LONGHAUL_LOG";
/// Below a second an ordinary pause would end a copy.
const SHORTEST_STALL: Duration = Duration::from_secs(1);
const LONGEST_STALL: Duration = Duration::from_secs(24 * 3600);
/// Bytes; whoever names a larger file has named the wrong one.
const TOKEN_LEN_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_reached_by_ssh() {
        let ssh = |host: &str| Location::Ssh { host: host.into(), path: b".".into() };
        assert_eq!(host_of("far").unwrap(), ssh("far"));
        assert_eq!(host_of("me@far:").unwrap(), ssh("me@far"));
        for address in ["2001:db8::1", "2001:db8::", "me@2001:db8::1", "fe80::1%eth0"] {
            assert_eq!(host_of(address).unwrap(), ssh(address), "its colons end no host name");
        }
        assert_eq!(host_of("me@[2001:db8::1]").unwrap(), ssh("me@2001:db8::1"));
        assert!(matches!(host_of("longhaul://far:99").unwrap(), Location::Daemon { port: 99, .. }));
        for host in ["", "/data", "a/b"] {
            assert!(host_of(host).is_err(), "{host}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "soon", "5y", "0s", "10ms", "25h", "1e3s", "99999999999999999999999s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn port_ranges() {
        assert_eq!(parse_ports("7700-7799"), Ok(7700..=7799));
        assert_eq!(parse_ports("7700"), Ok(7700..=7700));
        assert!(parse_ports("9-3").unwrap_err().contains("3-9"));
        for bad in ["", "-", "0-5", "1-70000", "a-b"] {
            assert!(parse_ports(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn places_to_listen_at() {
        for (text, address) in [
            ("127.0.0.1:99", "127.0.0.1:99"),
            ("[::1]:99", "[::1]:99"),
            ("::1", "[::1]:7700"),
            ("[::1]", "[::1]:7700"),
            ("10.0.0.1", "10.0.0.1:7700"),
            (":99", "[::]:99"),
            ("99", "[::]:99"),
            ("0", "[::]:0"),
        ] {
            assert_eq!(parse_listen(text), Ok(address.parse().unwrap()), "{text}");
        }
        for bad in ["", "host:99", "1.2.3.4:x", "70000", ":"] {
            assert!(parse_listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_are_one_line() {
        assert_eq!(check_secret(b"abc\n".into()), Ok(longhaul::Token::from("abc")));
        assert_eq!(check_secret(b"a b\r\n".into()), Ok(longhaul::Token::from("a b")));
        for bad in [&b""[..], b"\n\n", b"a\nb", b"\xff\xfe"] {
            assert!(check_secret(bad.into()).is_err(), "{bad:?}");
        }
        assert!(check_secret(vec![b'x'; 5000]).is_err());
    }

    #[test]
    fn a_token_file_that_others_can_read_is_warned_about() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret\n").unwrap();
        let mode =
            |bits| std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(bits)).unwrap();
        mode(0o600);
        assert!(find_token(Some(file.path())).unwrap().unwrap().warning.is_none());
        mode(0o640);
        let token = find_token(Some(file.path())).unwrap().unwrap();
        assert!(token.warning.unwrap().contains("chmod 600"));
        assert_eq!((token.secret.secret(), token.from), ("secret", TokenFrom::File(file.path().into())));
    }

    #[test]
    fn lists_of_files_stay_below_the_source() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a\n\nb/c d\n./e\n#f\n").unwrap();
        assert_eq!(read_file_list(file.path()).unwrap(), ["a", "b/c d", "./e", "#f"].map(PathBuf::from));
        std::fs::write(file.path(), "a\n/etc/passwd\n").unwrap();
        assert!(read_file_list(file.path()).unwrap_err().contains(":2: "));
        std::fs::write(file.path(), "../x").unwrap();
        assert!(read_file_list(file.path()).is_err());
    }

    #[test]
    fn errors_read_like_prose() {
        assert_eq!(describe(&io::Error::from_raw_os_error(2)), "no such file or directory");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("64GiB"), Ok(64 << 30));
        assert_eq!(parse_bytes("500 MB"), Ok(500_000_000));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        for bad in ["", "0", "x", "1 parsec", "99999999TiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
