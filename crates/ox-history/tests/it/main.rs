//! Tests of the checker: valid histories pass, and every kind of violation is found.

mod events;
mod history_builder;
mod linear_time;
mod logs;
mod reads;
mod replies;
mod sessions;
mod valid_histories;
mod writes;
