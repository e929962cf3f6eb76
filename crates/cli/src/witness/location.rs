//! What `--witness` names: `DIR`, the address of a place in an object store, or
//! `ssh://[USER@]HOST[:PORT][/DIR]`.

use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Beginning of the address of another host.
const SCHEME: &str = "ssh://";

/// Where the witness of a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WitnessLocation {
    /// A folder that this machine reaches, or the address of a place in an object store.
    Reached(PathBuf),
    /// A folder on another host.
    Host(WitnessHost),
}

/// A folder on another host, which `ssh` reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WitnessHost {
    /// The user there; `None` for the default of `ssh`.
    user: Option<String>,
    /// Name or address of the host.
    pub(crate) name: String,
    /// Port of its sshd; `None` for the default of `ssh`.
    pub(crate) port: Option<u16>,
    /// The absolute path of the folder; `None` for one in the state folder of the user.
    pub(crate) folder: Option<PathBuf>,
}

/// Why a text is no location of a witness.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum WitnessAddressError {
    /// It has no host, or something else in its place.
    #[error("`{text}` names no host as a witness")]
    NoHost {
        /// The text.
        text: String,
    },
    /// Its port is not a number from 1 to 65535.
    #[error("`{port}` is no port of the witness `{text}`")]
    Port {
        /// The text.
        text: String,
        /// The text in place of the port.
        port: String,
    },
    /// The address means a different host for each launcher.
    #[error("`{text}` is another witness on each machine with a launcher")]
    Loopback {
        /// The text.
        text: String,
    },
    /// The text may mean a new folder or a host.
    #[error("`{text}` is no folder, and may mean a host")]
    Unclear {
        /// The text.
        text: String,
    },
}

impl WitnessLocation {
    /// Reads the value of `--witness`.
    ///
    /// # Errors
    ///
    /// If the value begins like the address of a host, but is not one.
    pub(crate) fn parse(place: &Path) -> Result<Self, WitnessAddressError> {
        match place.to_str().and_then(|text| text.strip_prefix(SCHEME)) {
            Some(rest) => parse_host(rest).map(Self::Host),
            None => Ok(Self::Reached(place.to_path_buf())),
        }
    }
}

impl WitnessHost {
    /// The host as `ssh` takes it: `[USER@]HOST`.
    pub(crate) fn login(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.name),
            None => self.name.clone(),
        }
    }

    /// The arguments with which a user reaches the host by `ssh`.
    pub(crate) fn arguments(&self) -> String {
        let login = self.login();
        self.port.map_or_else(|| login.clone(), |port| format!("-p {port} {login}"))
    }
}

impl fmt::Display for WitnessHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.name.contains(':') {
            true => write!(f, "[{}]", self.name)?,
            false => f.write_str(&self.name)?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        self.folder.as_ref().map_or(Ok(()), |folder| write!(f, "{}", folder.display()))
    }
}

/// Returns an error if a value of `--witness` is not an existing folder, and may mean a host:
/// `NAME` or `NAME:DIR`. Otherwise a user who means a host would get a new folder of that name,
/// which no other machine reaches.
pub(crate) fn check_meaning(place: &Path) -> Result<(), WitnessAddressError> {
    let text = place.to_string_lossy();
    let begin = text.split('/').next().unwrap_or_default();
    let may_be_host = !text.contains("://") && (begin.contains(':') || begin == text);
    match may_be_host && !place.exists() {
        true => Err(WitnessAddressError::Unclear { text: text.into_owned() }),
        false => Ok(()),
    }
}

/// Reads an address after its scheme.
fn parse_host(rest: &str) -> Result<WitnessHost, WitnessAddressError> {
    let text = || format!("{SCHEME}{rest}");
    let no_host = || WitnessAddressError::NoHost { text: text() };
    let (authority, folder) = rest.split_once('/').unwrap_or((rest, ""));
    let folder = Some(folder.trim_end_matches('/')).filter(|folder| !folder.is_empty());
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, authority),
    };
    let (name, port) = match place.strip_prefix('[') {
        // An address of IPv6 has colons itself (RFC 3986, section 3.2.2).
        Some(inner) => {
            let (name, after) = inner.split_once(']').ok_or_else(no_host)?;
            match after.strip_prefix(':') {
                None if !after.is_empty() => return Err(no_host()),
                port => (name, port),
            }
        }
        None => match place.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (place, None),
        },
    };
    let of_name = |c: char| c.is_ascii_alphanumeric() || "._-:%".contains(c);
    // `ssh` may pass the name of a user to a shell (`ProxyCommand`, `Match exec`).
    let of_user =
        |c: char| !c.is_whitespace() && !c.is_control() && !"'`\"\\;&<>|(){}$".contains(c);
    // A word that begins with `-` would be an option of `ssh`.
    let is_word = |word: &str, of_word: &dyn Fn(char) -> bool| {
        !word.is_empty() && !word.starts_with('-') && word.chars().all(of_word)
    };
    if !is_word(name, &of_name) || user.is_some_and(|user| !is_word(user, &of_user)) {
        return Err(no_host());
    }
    let number = |port: &str| match port.parse::<u16>() {
        Ok(number @ 1..) => Ok(number),
        _ => Err(WitnessAddressError::Port { text: text(), port: port.to_owned() }),
    };
    Ok(WitnessHost {
        user: user.map(str::to_owned),
        name: name.to_owned(),
        port: port.map(number).transpose()?,
        folder: folder.map(|folder| PathBuf::from(format!("/{folder}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> WitnessHost {
        match WitnessLocation::parse(Path::new(text)) {
            Ok(WitnessLocation::Host(host)) => host,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn an_address_has_a_host_and_perhaps_a_user_a_port_and_a_folder() {
        let bare = host("ssh://c1");
        assert_eq!((bare.login().as_str(), bare.port, bare.folder), ("c1", None, None));
        let full = host("ssh://ann@c1.example.org:2222/var/lib/witness/");
        assert_eq!((full.login().as_str(), full.port), ("ann@c1.example.org", Some(2222)));
        assert_eq!(full.folder.as_deref(), Some(Path::new("/var/lib/witness")));
        assert_eq!(full.to_string(), "ssh://ann@c1.example.org:2222/var/lib/witness");
        assert_eq!(full.arguments(), "-p 2222 ann@c1.example.org");
        let numbered = host("ssh://[fd00::7]:22");
        assert_eq!((numbered.name.as_str(), numbered.port), ("fd00::7", Some(22)));
        assert_eq!(numbered.to_string(), "ssh://[fd00::7]:22");
        assert_eq!(host("ssh://c1/").folder, None);
    }

    #[test]
    fn a_text_with_another_beginning_is_a_folder_or_a_place_in_a_store() {
        for text in ["/data/witness", "./c1", "s3://bucket/witness", "ssh:/c1"] {
            let location = WitnessLocation::parse(Path::new(text));
            assert_eq!(location, Ok(WitnessLocation::Reached(text.into())));
        }
    }

    #[test]
    fn an_address_without_a_host_is_refused() {
        let wrong = ["ssh://", "ssh:///dir", "ssh://@c1", "ssh://ann@", "ssh://[::1", "ssh://[c]d"];
        let options = ["ssh://-oProxyCommand=x", "ssh://-l@c1", "ssh://c 1", "ssh://c1;ls"];
        let shells = ["ssh://`id`@c1", "ssh://$(id)@c1", "ssh://a;b@c1", "ssh://a\\@c1"];
        for text in wrong.into_iter().chain(options).chain(shells) {
            let refused = WitnessLocation::parse(Path::new(text));
            assert_eq!(refused, Err(WitnessAddressError::NoHost { text: text.to_owned() }));
        }
        for port in ["0", "65536", "", "x", "-1"] {
            let refused = WitnessLocation::parse(Path::new(&format!("ssh://c1:{port}/dir")));
            assert!(matches!(refused, Err(WitnessAddressError::Port { .. })), "{refused:?}");
        }
    }

    #[test]
    fn a_name_that_is_no_folder_is_refused_since_a_host_may_be_meant() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["no-such-folder-c1", "c1:witness", "me@c1:/var/witness"] {
            let refused = check_meaning(Path::new(text));
            assert_eq!(refused, Err(WitnessAddressError::Unclear { text: text.to_owned() }));
        }
        for text in ["./c1", "/no/such/folder", ".", "s3://bucket/c1", "ssh://c1"] {
            assert_eq!(check_meaning(Path::new(text)), Ok(()), "{text}");
        }
        let existing = folder.path().join("a:b");
        std::fs::create_dir(&existing).unwrap();
        assert_eq!(check_meaning(&existing), Ok(()));
    }
}
