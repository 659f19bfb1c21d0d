//! The checker is checked itself: good histories pass, and each way to break a promise is named.

mod events;
mod history_builder;
mod linear_time;
mod logs;
mod reads;
mod replies;
mod sessions;
mod valid_histories;
mod writes;
