//! Typed access to the values of a TOML text, each with its byte offset.

use crate::quantity::QuantityError;
use crate::spec::file_error::{GridFileProblem, Located};
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its position.
pub(super) type Value<'i> = Spanned<DeValue<'i>>;

/// A key that the reader of a table accepts.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// The expected value.
    pub(super) expected: &'static str,
    /// A correct line.
    pub(super) example: &'static str,
}

impl Key {
    /// Returns the error for a value that is not of the expected type.
    pub(super) fn refuse(self, value: &Value<'_>) -> Located {
        let Self { name, expected, example } = self;
        located(value, GridFileProblem::Kind { key: name.to_owned(), expected, example })
    }
}

/// Locates a problem at `value`.
pub(super) fn located<T>(value: &Spanned<T>, problem: impl Into<GridFileProblem>) -> Located {
    Located { offset: value.span().start, problem: problem.into() }
}

/// A table whose keys are all known.
pub(super) struct Section<'t, 'i> {
    table: &'t DeTable<'i>,
    offset: usize,
}

impl<'t, 'i> Section<'t, 'i> {
    /// Creates a section after checking that `table`, called `name` in messages, has only known
    /// keys.
    pub(super) fn new(
        table: &'t DeTable<'i>,
        offset: usize,
        name: &str,
        known: &[Key],
    ) -> Result<Self, Located> {
        for (key, _) in entries(table) {
            if !known.iter().any(|k| k.name == key.get_ref()) {
                let names: Vec<String> = known.iter().map(|k| format!("`{}`", k.name)).collect();
                let problem = GridFileProblem::UnknownKey {
                    key: key.get_ref().to_string(),
                    table: name.to_owned(),
                    known: names.join(", "),
                };
                return Err(located(key, problem));
            }
        }
        Ok(Self { table, offset })
    }

    /// Creates a section from the value of `key`, which must be a table; see [`Section::new`].
    pub(super) fn of(
        value: &'t Value<'i>,
        key: Key,
        name: &str,
        known: &[Key],
    ) -> Result<Self, Located> {
        let table = value.get_ref().as_table().ok_or_else(|| key.refuse(value))?;
        Self::new(table, value.span().start, name, known)
    }

    /// Locates a problem at the table as a whole.
    pub(super) fn located(&self, problem: impl Into<GridFileProblem>) -> Located {
        Located { offset: self.offset, problem: problem.into() }
    }

    /// Returns the value of `key`, if it is present.
    pub(super) fn value(&self, key: Key) -> Option<&'t Value<'i>> {
        self.table.get(key.name)
    }

    /// Returns the entries of a table of tables with the user's keys, in the order of the file.
    pub(super) fn tables(
        &self,
        key: Key,
    ) -> Result<Vec<(&'t Spanned<toml::de::DeString<'i>>, &'t Value<'i>)>, Located> {
        let Some(value) = self.value(key) else { return Ok(vec![]) };
        let table = value.get_ref().as_table().ok_or_else(|| key.refuse(value))?;
        Ok(entries(table))
    }

    /// Returns the elements of an array; empty if it is not present.
    pub(super) fn array(&self, key: Key) -> Result<&'t [Value<'i>], Located> {
        let Some(value) = self.value(key) else { return Ok(&[]) };
        value.get_ref().as_array().map(|array| &**array).ok_or_else(|| key.refuse(value))
    }

    /// Reads a count.
    pub(super) fn count(&self, key: Key) -> Result<Option<u32>, Located> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let integer = value.get_ref().as_integer();
        let count = integer.and_then(|i| u32::from_str_radix(i.as_str(), i.radix()).ok());
        count.map(Some).ok_or_else(|| key.refuse(value))
    }

    /// Reads a boolean.
    pub(super) fn flag(&self, key: Key) -> Result<Option<bool>, Located> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.get_ref().as_bool().map(Some).ok_or_else(|| key.refuse(value))
    }

    /// Reads a quantity with its unit, in a string.
    pub(super) fn quantity<T>(&self, key: Key) -> Result<Option<T>, Located>
    where
        T: FromStr<Err = QuantityError>,
    {
        let Some(value) = self.value(key) else { return Ok(None) };
        let text = text(value, key)?;
        text.parse().map(Some).map_err(|error: QuantityError| located(value, error))
    }
}

/// Returns the text of `value`, which belongs to `key` and must be a string.
pub(super) fn text<'t>(value: &'t Value<'_>, key: Key) -> Result<&'t str, Located> {
    value.get_ref().as_str().ok_or_else(|| key.refuse(value))
}

/// Returns the entries of a table in the order of the file.
fn entries<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(&'t Spanned<toml::de::DeString<'i>>, &'t Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}
