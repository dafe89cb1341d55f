// SPDX-License-Identifier: MIT OR Apache-2.0
//! A search on a machine that is made up.
