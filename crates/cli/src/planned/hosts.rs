//! The hosts of a destination.

use crate::values::describe;
use std::path::Path;

/// The hosts of a file: one a line, empty lines and what follows a `#` left out.
pub fn read_hosts(path: &Path) -> Result<Vec<String>, String> {
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("--hosts {}: {}", path.display(), describe(&e)))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let hosts: Vec<String> = lines.filter(|line| !line.is_empty()).map(Into::into).collect();
    if hosts.is_empty() { Err(format!("--hosts {}: names no host", path.display())) } else { Ok(hosts) }
}

/// The ways to a destination: each of `hosts` in place of its own host, or each of the range in its name.
pub fn expand(dest: &str, hosts: Option<&[String]>) -> Result<Vec<String>, String> {
    let (before, host, after) = split(dest);
    match hosts {
        None => Ok(expand_range(host)?.iter().map(|host| format!("{before}{host}{after}")).collect()),
        Some(_) if before.is_empty() => Err("--hosts needs a destination such as longhaul://host/in".into()),
        Some(hosts) => Ok(hosts.iter().map(|host| format!("{before}{host}{after}")).collect()),
    }
}

/// What stands before the host of a daemon and its port, these, and what follows.
fn split(dest: &str) -> (&str, &str, &str) {
    let Some(rest) = dest.strip_prefix(SCHEME) else { return ("", dest, "") };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    (&dest[..SCHEME.len()], host, path)
}

/// `dtn[1-4].far` stands for four hosts, `dtn[08-10]` for three with numbers of two digits. What is no range, such as the address
/// `[::1]`, stands for itself.
fn expand_range(host: &str) -> Result<Vec<String>, String> {
    let Some((before, rest)) = host.split_once('[').filter(|(before, _)| !before.is_empty()) else {
        return Ok(vec![host.into()]);
    };
    let Some((range, after)) = rest.split_once(']') else { return Ok(vec![host.into()]) };
    let Some((first, last)) = range.split_once('-') else { return Ok(vec![host.into()]) };
    let (Ok(from), Ok(to)) = (first.parse::<u32>(), last.parse::<u32>()) else {
        return Ok(vec![host.into()]);
    };
    if from > to || to - from >= HOSTS_MAX {
        return Err(format!("[{range}] runs backwards, or stands for more than {HOSTS_MAX} hosts"));
    }
    let width = first.len();
    Ok((from..=to).map(|number| format!("{before}{number:0width$}{after}")).collect())
}

const SCHEME: &str = "longhaul://";
const HOSTS_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_stands_for_several_hosts() {
        let all = expand("longhaul://dtn[1-3].far:7701/in", None).unwrap();
        assert_eq!(all, [1, 2, 3].map(|n| format!("longhaul://dtn{n}.far:7701/in")));
        assert_eq!(
            expand("longhaul://d[08-10]/", None).unwrap(),
            ["08", "09", "10"].map(|n| format!("longhaul://d{n}/"))
        );
        for one in ["longhaul://[::1]:99/in", "longhaul://h/x[1-2]", "me@h:x"] {
            assert_eq!(expand(one, None).unwrap(), [one]);
        }
        assert!(
            expand("longhaul://d[3-1]/", None).is_err()
                && expand("longhaul://d[0-4294967295]/", None).is_err()
        );
    }

    #[test]
    fn a_list_of_hosts_takes_the_place_of_the_one_that_is_named() {
        let hosts = ["a".into(), "b:99".into()];
        assert_eq!(
            expand("longhaul://any/in", Some(&hosts)).unwrap(),
            ["longhaul://a/in", "longhaul://b:99/in"]
        );
        assert!(expand("far:in", Some(&hosts)).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# ours\na\n\nb:99 # the new one\n").unwrap();
        assert_eq!(read_hosts(file.path()).unwrap(), ["a", "b:99"]);
        std::fs::write(file.path(), "#\n").unwrap();
        assert!(read_hosts(file.path()).unwrap_err().contains("names no host"));
    }
}
