//! A deferred action on the state that owns it.

/// An action on a `C`.
pub(crate) type Callback<C> = Box<dyn FnOnce(&mut C) + Send>;

/// An action on a `C` that takes a result.
pub(crate) type CallbackWith<C, T> = Box<dyn FnOnce(&mut C, T) + Send>;
