//! Seeds that failed once, each with the reason. They are never removed.
//!
//! A seed means the same only as long as plans and clients draw the same numbers; when they change, the story is kept
//! by the unit test that goes with the fix, and the seed stays as one more run.
