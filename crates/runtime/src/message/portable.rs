//! What a value needs to reach another node.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value that can reach another node: messages, states and initial values of actors, tasks and
/// their outputs. Every type that `serde` encodes and decodes, and that owns its data, is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross to another node",
    label = "this type, or a part of it, cannot be encoded and decoded, or does not own its data",
    note = "write `#[derive(Serialize, Deserialize)]` above `{Self}` and above the types of its fields",
    note = "a program that derives these also needs `serde` among its own dependencies",
    note = "a field that stays on its node can be left out by `#[serde(skip)]`; `Rc` and references cannot cross: use owned values, or `Numbers` for shared data"
)]
pub trait Portable: Serialize + DeserializeOwned + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + 'static> Portable for T {}
