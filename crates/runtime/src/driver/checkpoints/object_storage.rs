//! Objects in an object store, such as S3.
//!
//! The operations of the crate `object_store` need a runtime of tokio. Each call starts a thread
//! for its operation, so that callers may be within another runtime.

use super::storage::{CheckpointStorage, MANIFEST_NAME};
use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    ObjectStore, ObjectStoreExt, PutMode, PutPayload, WriteMultipart, parse_url_opts,
};
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;

/// Size of a request in bytes; larger objects are stored in several. A failed request is repeated
/// as a whole.
const REQUEST_BYTES: usize = 8 << 20;
/// Maximum number of requests for an object that are under way.
const REQUESTS_MAX: usize = 4;
/// Time for a request: enough for four at once over an uplink of 1 Mbit/s.
const TIMEOUT: &str = "10 minutes";
/// Prefixes of the names of environment variables with settings.
const VARIABLES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// A place in an object store.
pub(super) struct ObjectStorage {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    address: String,
}

impl fmt::Debug for ObjectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The store may print keys.
        f.debug_struct("ObjectStorage").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ObjectStorage {
    /// Opens the place at an address, such as `s3://bucket/job`. Keys and settings come from
    /// environment variables, such as `AWS_ACCESS_KEY_ID` and `AWS_ENDPOINT_URL`.
    pub(super) fn open(address: &str) -> io::Result<Self> {
        let url = url::Url::parse(address);
        let url = url.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let refused = match url.scheme() {
            "file" => Some("name the folder itself, without `file://`"),
            "memory" => Some("it would end with the process"),
            _ => None,
        };
        if let Some(reason) = refused {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let variables = std::env::vars_os();
        let texts = variables.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let is_setting = |name: &str| VARIABLES.iter().any(|prefix| name.starts_with(prefix));
        let settings = texts.filter(|(name, _)| is_setting(name));
        let settings = settings.map(|(name, value)| (name.to_lowercase(), value));
        let settings = std::iter::once(("timeout".to_owned(), TIMEOUT.to_owned())).chain(settings);
        let (store, prefix) = parse_url_opts(&url, settings)?;
        Ok(Self { store: store.into(), prefix, address: address.trim_end_matches('/').to_owned() })
    }

    /// A store that ends with the process.
    #[cfg(test)]
    pub(super) fn in_memory() -> Self {
        let store = Arc::new(object_store::memory::InMemory::new());
        Self { store, prefix: Path::from("job"), address: "memory:///job".to_owned() }
    }

    fn at(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Runs an operation to its end.
    fn wait<T: Send>(
        &self,
        operation: impl Future<Output = object_store::Result<T>> + Send,
    ) -> io::Result<T> {
        let run = || -> io::Result<T> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(operation).map_err(of_system)
        };
        std::thread::scope(|scope| {
            let ended = std::thread::Builder::new().spawn_scoped(scope, run)?.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("the operation has panicked")))
        })
    }
}

/// Converts an error of a store to one of the system, with the kinds that callers distinguish.
fn of_system(error: object_store::Error) -> io::Error {
    match error {
        object_store::Error::AlreadyExists { .. } => {
            io::Error::new(io::ErrorKind::AlreadyExists, error)
        }
        error => error.into(),
    }
}

impl CheckpointStorage for ObjectStorage {
    fn put(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()> {
        let path = self.at(name);
        if pieces.iter().map(Bytes::len).sum::<usize>() <= REQUEST_BYTES {
            let payload = PutPayload::from_iter(pieces);
            return self.wait(async { self.store.put(&path, payload).await.map(drop) });
        }
        self.wait(async {
            let mut upload = WriteMultipart::new_with_chunk_size(
                self.store.put_multipart(&path).await?,
                REQUEST_BYTES,
            );
            for piece in pieces {
                if let Err(error) = upload.wait_for_capacity(REQUESTS_MAX).await {
                    // The first error is the cause, whatever `abort` returns.
                    let _ = upload.abort().await;
                    return Err(error);
                }
                upload.put(piece);
            }
            upload.finish().await.map(drop)
        })
    }

    fn put_new(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()> {
        let (path, payload) = (self.at(name), PutPayload::from_iter(pieces));
        let put = self.store.put_opts(&path, payload, PutMode::Create.into());
        self.wait(async { put.await.map(drop) })
    }

    fn get(&self, name: &str) -> io::Result<Bytes> {
        let path = self.at(name);
        self.wait(async { self.store.get(&path).await?.bytes().await })
    }

    fn has(&self, name: &str) -> io::Result<bool> {
        let path = self.at(name);
        match self.wait(async { self.store.head(&path).await }) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn groups(&self) -> io::Result<Vec<String>> {
        let listed = self.wait(async { self.store.list_with_delimiter(Some(&self.prefix)).await });
        let name = |path: &Path| path.filename().map(str::to_owned);
        Ok(listed?.common_prefixes.iter().filter_map(name).collect())
    }

    fn remove_all(&self, group: &str) -> io::Result<()> {
        let path = self.at(group);
        self.wait(async {
            // The manifest is removed first, so that the rest does not look like a complete
            // checkpoint.
            let mut objects = self.store.list_with_delimiter(Some(&path)).await?.objects;
            objects.sort_by_key(|object| object.location.filename() != Some(MANIFEST_NAME));
            for object in objects {
                self.store.delete(&object.location).await?;
            }
            Ok(())
        })
    }

    fn path_of(&self, name: &str) -> String {
        match name {
            "" => self.address.clone(),
            _ => format!("{}/{name}", self.address),
        }
    }
}
