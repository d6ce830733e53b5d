//! Tests of this reader.
