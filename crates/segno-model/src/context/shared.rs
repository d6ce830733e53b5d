//! Content of a message that is a record's own, or was made for the context.
//!
//! Responsible for: that a context of many long texts copies none of them. Must not: know what is sent.

use crate::record::Body;
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A list of pieces: a part of a record's body, shared with the record, or a list of its own. Either way it
/// reads as a slice.
#[derive(Clone)]
pub struct Shared<T: 'static>(Source<T>);

#[derive(Clone)]
enum Source<T: 'static> {
    Made(Vec<T>),
    Part(Arc<Body>, fn(&Body) -> &[T]),
}

impl<T> Shared<T> {
    /// The part of `body` that `part` finds.
    pub(super) fn part(body: Arc<Body>, part: fn(&Body) -> &[T]) -> Self {
        Self(Source::Part(body, part))
    }
}

impl<T: Clone> Shared<T> {
    /// The list, to be changed and put back; copied when it is a record's. Leaves an empty one.
    pub fn take(&mut self) -> Vec<T> {
        match std::mem::replace(&mut self.0, Source::Made(Vec::new())) {
            Source::Made(list) => list,
            Source::Part(body, part) => part(&body).to_vec(),
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Source::Made(list) => list,
            Source::Part(body, part) => part(body),
        }
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(list: Vec<T>) -> Self {
        Self(Source::Made(list))
    }
}

impl<'a, T> IntoIterator for &'a Shared<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}
