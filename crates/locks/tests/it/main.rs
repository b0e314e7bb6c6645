//! The one integration binary of the crate. Everything here uses the public API.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod histories;
mod limits;
mod model;
mod restart;
mod scripts;
