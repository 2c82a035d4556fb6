//! The order: what a guard is told to start. The daemon sends it over their socket, because a command line is
//! readable by every user of the machine and arguments may contain secrets.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::VERSION;

/// More than any system accepts as arguments of a program.
const MAX: u32 = 64 * 1024 * 1024;

/// Encodes an infinite limit.
const UNLIMITED: &str = "unlimited";

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct GuardOrder {
    pub program: PathBuf,
    /// `argv[0]`, if it differs from `program`.
    pub name: Option<PathBuf>,
    /// The run log's note of the child's container.
    pub container: Option<PathBuf>,
    /// Soft limits for the child, where the daemon's differ.
    pub files: Option<u64>,
    pub core: Option<Option<u64>>,
    pub args: Vec<OsString>,
}

impl GuardOrder {
    /// The length, then the words, each terminated by a zero byte; the first one is the version of this package.
    /// `None` if a word contains a zero byte.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let path = |path: &Option<PathBuf>| path.clone().unwrap_or_default().into_os_string();
        let core = match self.core {
            Some(None) => UNLIMITED.to_owned(),
            Some(Some(limit)) => limit.to_string(),
            None => String::new(),
        };
        let files = self.files.map(|files| files.to_string()).unwrap_or_default();
        let first = [
            VERSION.into(),
            self.program.clone().into(),
            path(&self.name),
            path(&self.container),
            files.into(),
            core.into(),
        ];
        let mut words = Vec::new();
        for word in first.iter().chain(&self.args) {
            if word.as_bytes().contains(&0) {
                return None;
            }
            words.extend_from_slice(word.as_bytes());
            words.push(0);
        }
        let length = u32::try_from(words.len()).ok()?;
        Some([length.to_be_bytes().as_slice(), &words].concat())
    }

    /// An order of another version is `Unsupported`: what its words mean may have changed.
    pub fn read(mut from: impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length > MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut words = vec![0; length as usize];
        from.read_exact(&mut words)?;
        let words = words.strip_suffix(b"\0").ok_or(io::ErrorKind::InvalidData)?;
        let mut words = words.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
        let mut next = || words.next().ok_or(io::ErrorKind::InvalidData);
        if next()? != VERSION {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let filled = |word: OsString| (!word.is_empty()).then_some(word);
        let number = |word: &OsStr| word.to_str().and_then(|word| word.parse().ok());
        Ok(Self {
            program: next()?.into(),
            name: filled(next()?).map(PathBuf::from),
            container: filled(next()?).map(PathBuf::from),
            files: number(&next()?),
            core: filled(next()?).map(|word| number(&word)),
            args: words.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_encoding() {
        let plain = GuardOrder { program: "/bin/x".into(), ..GuardOrder::default() };
        let full = GuardOrder {
            program: "/bin/x".into(),
            name: Some("/home/y".into()),
            container: Some("/state/z".into()),
            files: Some(1024),
            core: Some(None),
            args: vec!["--token".into(), "".into(), "a\nb".into(), OsString::from_vec(vec![0xff])],
        };
        let limited = GuardOrder { core: Some(Some(7)), args: vec!["".into()], ..plain.clone() };
        for order in [plain, full, limited] {
            let bytes = order.encode().unwrap();
            assert_eq!(GuardOrder::read(bytes.as_slice()).unwrap(), order);
            // A truncated order is refused.
            assert!(GuardOrder::read(&bytes[..bytes.len() - 1]).is_err());
        }
    }

    #[test]
    fn an_order_of_another_version_is_refused() {
        let bytes = GuardOrder::default().encode().unwrap();
        let mut other = bytes.clone();
        other[4] ^= 1;
        assert!(GuardOrder::read(bytes.as_slice()).is_ok());
        let refused = GuardOrder::read(other.as_slice()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn a_zero_byte_cannot_be_encoded() {
        assert_eq!(GuardOrder { args: vec!["a\0b".into()], ..GuardOrder::default() }.encode(), None);
    }
}
